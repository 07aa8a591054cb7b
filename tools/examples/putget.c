/* libulnet in one page: one node serves memory on a portal; another node puts a greeting there and gets it back.
 *
 *   putget                                      both in this process, on 127.0.0.1 and 127.0.0.2
 *   putget serve 10.0.0.1@tcp                   serve until Enter is pressed
 *   putget use 10.0.0.2@tcp 10.0.0.1@tcp        from the first address, use the memory at the second
 *
 * Build: cc putget.c -lulnet */
#include <stdio.h>
#include <string.h>
#include <ulnet.h>
#include <unistd.h>

#define PORTAL 20
#define BITS 0x1234u

static int failed(const char* what, int error) {
  fprintf(stderr, "putget: %s: %s (%d)\n", what, ulnet_strerror(error), error);
  return 1;
}

/* A node with one address. With unprivileged_ports it needs no root, but reaches only other ulnet nodes. */
static ulnet_t* open_node(const char* nid, int port) {
  char config[256], error[512];
  ulnet_t* node;
  ulnet_options_t options = {0};
  snprintf(config, sizeof(config),
           "net:\n    - net type: tcp\n      local NI(s):\n        - nid: %s\n"
           "ulnet:\n    workers: 1\n    unprivileged_ports: true\n    accept_port: %d\n",
           nid, port);
  options.config = config;
  if (ulnet_open(&options, &node, error, sizeof(error)) != 0) {
    fprintf(stderr, "putget: cannot start %s: %s\n", nid, error);
    return NULL;
  }
  return node;
}

/* Lends `memory` to all nodes that put or get with our match bits. */
static int serve(ulnet_t* node, char* memory, uint32_t bytes, ulnet_submitter_t** submitter) {
  const ulnet_segment_t segment = {memory, bytes};
  ulnet_md_spec_t spec = ulnet_md_defaults();
  ulnet_md_t md;
  int error;
  spec.segments = &segment;
  spec.segment_count = 1;
  spec.options = ULNET_MD_PUT | ULNET_MD_GET | ULNET_MD_MANAGE_REMOTE;
  if ((error = ulnet_submitter_open(node, 0, NULL, submitter)) != 0) return failed("submitter", error);
  if ((error = ulnet_portal_open(node, *submitter, PORTAL, ULNET_PORTAL_SINGLE, 0)) != 0)
    return failed("portal", error);
  if ((error = ulnet_md_bind(*submitter, &spec, &md)) != 0) return failed("bind", error);
  error = ulnet_me_attach(*submitter, PORTAL, NULL, ULNET_PID_ANY, BITS, 0, ULNET_TAIL, md);
  return error == 0 ? 0 : failed("attach", error);
}

/* Waits for the final event of the put or get that was just accepted. */
static int finish(ulnet_submitter_t* submitter, ulnet_eq_t eq, const char* what) {
  ulnet_event_t event;
  while (ulnet_eq_wait(submitter, eq, &event, 1, 1000) == 0) {
  }
  if (event.status != 0) return failed(what, event.status);
  printf("%s: %u bytes\n", what, event.mlength);
  return 0;
}

/* Binds memory, puts it (get = 0) or fills it (get = 1), and unlinks it. */
static int transfer(ulnet_submitter_t* submitter, ulnet_eq_t eq, const char* target, char* memory, uint32_t bytes,
                    int get) {
  const ulnet_segment_t segment = {memory, bytes};
  const char* what = get ? "get" : "put";
  ulnet_md_spec_t spec = ulnet_md_defaults();
  ulnet_op_t op = ulnet_op_defaults();
  ulnet_event_t event;
  int error;
  spec.segments = &segment;
  spec.segment_count = 1;
  spec.eq = eq;
  if ((error = ulnet_md_bind(submitter, &spec, &op.md)) != 0) return failed("bind", error);
  if ((error = ulnet_nid_parse(target, &op.target)) != 0) return failed(target, error);
  op.portal = PORTAL;
  op.match_bits = BITS;
  error = get ? ulnet_get(submitter, &op) : ulnet_put(submitter, &op);
  if (error != 0) return failed(ulnet_submitter_reason(submitter), error);
  error = finish(submitter, eq, what);
  /* When ULNET_UNLINK has come, the memory is ours again. */
  if (ulnet_unlink(submitter, op.md) != 0) return 1;
  while (ulnet_eq_wait(submitter, eq, &event, 1, 1000) == 0) {
  }
  return error;
}

static int use(ulnet_t* node, const char* target) {
  char greeting[] = "hello over LNet", back[sizeof(greeting)] = "";
  ulnet_submitter_t* submitter;
  ulnet_eq_t eq;
  int error = ulnet_submitter_open(node, 0, NULL, &submitter);
  if (error != 0) return failed("submitter", error);
  if ((error = ulnet_eq_open(submitter, 16, NULL, NULL, &eq)) != 0) return failed("queue", error);
  if (transfer(submitter, eq, target, greeting, sizeof(greeting), 0) != 0) return 1;
  if (transfer(submitter, eq, target, back, sizeof(back), 1) != 0) return 1;
  printf("got back: %s\n", back);
  return strcmp(greeting, back) != 0;
}

int main(int argc, char** argv) {
  static char memory[4096];
  const char* mode = argc > 1 ? argv[1] : "both";
  const int serving = strcmp(mode, "serve") == 0 && argc == 3;
  /* Both sides need the same port. If both are in this process, the port depends on its pid: another run differs. */
  const int port = argc > 1 ? 19880 : 20000 + (int)(getpid() % 10000);
  const int using = strcmp(mode, "use") == 0 && argc == 4;
  ulnet_t *server = NULL, *client = NULL;
  ulnet_submitter_t* submitter;
  int status = 1;
  if (argc > 1 && !serving && !using) {
    fprintf(stderr, "usage: putget [serve NID | use NID TARGET]\n");
    return 2;
  }
  if (!using) {
    server = open_node(serving ? argv[2] : "127.0.0.1@tcp", port);
    if (server == NULL || serve(server, memory, sizeof(memory), &submitter) != 0) goto end;
  }
  if (serving) {
    printf("serving; press Enter to end\n");
    (void)getchar();
    status = 0;
  } else {
    client = open_node(using ? argv[2] : "127.0.0.2@tcp", port);
    if (client != NULL) status = use(client, using ? argv[3] : "127.0.0.1@tcp");
  }
end:
  ulnet_close(client);
  ulnet_close(server);
  return status;
}
