/* The C header from C: all checks that need no network. Exit status 0 = good. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ulnet.h"

#define CHECK(what)                                      \
  do {                                                   \
    if (!(what)) {                                       \
      fprintf(stderr, "line %d: %s\n", __LINE__, #what); \
      return 1;                                          \
    }                                                    \
  } while (0)

static unsigned events_seen;
static void on_event(void* context, const ulnet_event_t* event) {
  (void)context;
  (void)event;
  ++events_seen;
}

static int nids(void) {
  ulnet_nid_t nid, any = ulnet_nid_any();
  char text[64];
  CHECK(ulnet_nid_parse("10.0.0.1@tcp1", &nid) == 0);
  CHECK(ulnet_nid_text(&nid, text, sizeof(text)) == 0);
  CHECK(strcmp(text, "10.0.0.1@tcp1") == 0);
  CHECK(ulnet_nid_text(&nid, text, 4) < 0);
  CHECK(ulnet_nid_parse("nonsense@x", &nid) < 0);
  CHECK(any.bytes[1] == 0xFF);
  return 0;
}

static int errors(void) {
  ulnet_t* node = (ulnet_t*)&events_seen;
  char error[128];
  ulnet_options_t options = {0};
  /* The table of docs/libulnet.md. */
  const int told[] = {-EAGAIN,    -EINVAL,    -ENOENT,        -EXDEV,        -EBUSY,
                      -ENOSPC,    -ENOBUFS,   -EADDRNOTAVAIL, -ENETUNREACH,  -ESHUTDOWN,
                      -ECANCELED, -ETIMEDOUT, -EHOSTUNREACH,  -ECONNREFUSED, -ECONNRESET,
                      -EALREADY,  -EEXIST,    -ENOMEM};
  size_t i;
  CHECK(strcmp(ulnet_strerror(0), "success") == 0);
  CHECK(strlen(ulnet_strerror(-110)) > 0);
  CHECK(strlen(ulnet_strerror(-99999)) > 0);
  for (i = 0; i < sizeof(told) / sizeof(told[0]); ++i)
    CHECK(strcmp(ulnet_strerror(told[i]), ulnet_strerror(-99999)) != 0);
  options.mode = 17;
  CHECK(ulnet_open(&options, &node, error, sizeof(error)) < 0);
  CHECK(node == NULL);
  CHECK(strcmp(error, "no such mode") == 0);
  options.mode = ULNET_SOCKETS;
  options.config = "net:\n    - net type: nonsense\n";
  CHECK(ulnet_open(&options, &node, error, 8) < 0);
  CHECK(strlen(error) == 7); /* cut, but terminated */
  CHECK(ulnet_open(&options, &node, NULL, 0) < 0);
  ulnet_close(NULL);
  return 0;
}

static int loopback(void) {
  ulnet_t* node;
  ulnet_submitter_t* submitter;
  ulnet_eq_t queue, calls, none = {0, 0, 0, 0};
  ulnet_md_spec_t spec = ulnet_md_defaults();
  ulnet_md_t md;
  ulnet_event_t event;
  ulnet_submitter_size_t size = {16, 4, 2, 1}, nothing = {0, 4, 2, 1}, too_much = {16, 4, 0xFFFFFFFFu, 1};
  char memory[16];
  ulnet_segment_t segment = {memory, sizeof(memory)};
  CHECK(ulnet_open(NULL, &node, NULL, 0) == 0);
  CHECK(ulnet_workers(node) >= 1);
  CHECK(ulnet_nids(node, NULL, 0) == 0);
  CHECK(ulnet_submitter_open(node, 1000, NULL, &submitter) < 0);
  CHECK(ulnet_submitter_open(node, 0, &nothing, &submitter) == -EINVAL);
  CHECK(ulnet_submitter_open(node, 0, &too_much, &submitter) == -EINVAL);
  CHECK(ulnet_submitter_open(node, 0, &size, &submitter) == 0);
  CHECK(ulnet_eq_open(submitter, 0, NULL, NULL, &queue) < 0);
  CHECK(ulnet_eq_open(submitter, 4, on_event, NULL, &queue) < 0);
  CHECK(strlen(ulnet_submitter_reason(submitter)) > 0);
  CHECK(ulnet_eq_open(submitter, 4, NULL, NULL, &queue) == 0);
  CHECK(ulnet_eq_open(submitter, 0, on_event, NULL, &calls) == 0);
  CHECK(ulnet_eq_poll(submitter, none, &event, 1) == 0);
  CHECK(ulnet_md_bind(submitter, &spec, &md) < 0); /* no segments */
  spec.segments = &segment;
  spec.segment_count = 1;
  spec.user_ptr = memory;
  spec.eq = queue;
  spec.options = ULNET_MD_NUMA | ULNET_MD_ACCELERATOR;
  CHECK(ulnet_md_bind(submitter, &spec, &md) == 0);
  CHECK(ulnet_unlink(submitter, md) == 0);
  CHECK(ulnet_eq_wait(submitter, queue, &event, 1, 10000) == 1);
  CHECK(event.kind == ULNET_UNLINK && event.user_ptr == memory);
  CHECK(ulnet_portal_open(node, submitter, 0, ULNET_PORTAL_SINGLE, 0) < 0);
  CHECK(ulnet_portal_open(node, submitter, 64, ULNET_PORTAL_SINGLE, 0) < 0);
  CHECK(ulnet_portal_open(node, submitter, 5, 9, 0) < 0);
  CHECK(ulnet_portal_open(node, submitter, 5, ULNET_PORTAL_SINGLE, 0) == 0);
  CHECK(ulnet_portal_open(node, submitter, 5, ULNET_PORTAL_SINGLE, 0) < 0);
  CHECK(ulnet_portal_close(node, 5) == 0);
  ulnet_submitter_close(node, submitter);
  ulnet_close(node);
  return 0;
}

/* One queue for both roles: only operations that started here end with `final`. */
static int both_roles(void) {
  ulnet_t* node;
  ulnet_submitter_t* submitter;
  ulnet_md_spec_t spec = ulnet_md_defaults();
  ulnet_op_t op = ulnet_op_defaults();
  ulnet_md_t served;
  ulnet_event_t event;
  unsigned kinds[ULNET_UNLINK + 1] = {0}, finals = 0, i;
  char here[16] = "", there[16] = "";
  ulnet_segment_t mine = {here, sizeof(here)}, lent = {there, sizeof(there)};
  CHECK(ulnet_open(NULL, &node, NULL, 0) == 0);
  CHECK(ulnet_submitter_open(node, 0, NULL, &submitter) == 0);
  CHECK(ulnet_portal_open(node, submitter, 5, ULNET_PORTAL_SINGLE, 0) == 0);
  CHECK(ulnet_eq_open(submitter, 16, NULL, NULL, &spec.eq) == 0);
  spec.segments = &lent;
  spec.segment_count = 1;
  spec.options = ULNET_MD_PUT | ULNET_MD_GET | ULNET_MD_MANAGE_REMOTE;
  CHECK(ulnet_md_bind(submitter, &spec, &served) == 0);
  CHECK(ulnet_me_attach(submitter, 5, NULL, ULNET_PID_ANY, 1, 0, ULNET_TAIL, served) == 0);
  spec.segments = &mine;
  spec.options = 0;
  CHECK(ulnet_md_bind(submitter, &spec, &op.md) == 0);
  CHECK(ulnet_nid_parse("0@lo", &op.target) == 0);
  op.portal = 5;
  op.match_bits = 1;
  CHECK(ulnet_put(submitter, &op) == 0);
  CHECK(ulnet_get(submitter, &op) == 0);
  for (i = 0; i < 4; ++i) {
    CHECK(ulnet_eq_wait(submitter, spec.eq, &event, 1, 60000) == 1);
    CHECK(event.kind < ULNET_UNLINK && event.status == 0);
    ++kinds[event.kind];
    finals += event.final;
    CHECK(event.final == (event.kind == ULNET_ACK || event.kind == ULNET_REPLY));
  }
  CHECK(kinds[ULNET_PUT] == 1 && kinds[ULNET_GET] == 1 && kinds[ULNET_ACK] == 1 && kinds[ULNET_REPLY] == 1);
  CHECK(finals == 2);
  ulnet_stop(node);
  CHECK(ulnet_portal_close(node, 5) == -ESHUTDOWN);
  ulnet_close(node);
  return 0;
}

/* Regions without a driver that needs them: each call answers as with such a driver. */
static int regions(void) {
  static char memory[8192];
  ulnet_t* node;
  uint32_t region = 0, other = 7;
  char error[200] = "", cut[8] = "";
  CHECK(ulnet_open(NULL, &node, NULL, 0) == 0);
  CHECK(ulnet_region_add(node, memory, 4096, &region, error, sizeof(error)) == 0);
  CHECK(region != 0 && error[0] == 0);
  CHECK(ulnet_region_add(node, memory + 4095, 4096, &other, error, sizeof(error)) == -EEXIST);
  CHECK(other == 0 && strncmp(error, "4096 bytes at 0x", 16) == 0 && strstr(error, "overlap region") != NULL);
  CHECK(ulnet_region_add(node, NULL, 4096, &other, cut, sizeof(cut)) == -EINVAL);
  CHECK(strcmp(cut, "a regio") == 0);
  CHECK(ulnet_region_add(node, memory, 0, &other, NULL, 0) == -EINVAL);
  CHECK(ulnet_region_add(node, memory, SIZE_MAX, &other, NULL, 0) == -EINVAL);
  CHECK(ulnet_region_add(node, memory + 4096, 4096, &other, error, sizeof(error)) == 0 && other != region);
  CHECK(ulnet_region_remove(node, region, error, sizeof(error)) == 0);
  CHECK(ulnet_region_remove(node, region, error, sizeof(error)) == -ENOENT);
  CHECK(strncmp(error, "there is no region ", 19) == 0);
  ulnet_stop(node);
  CHECK(ulnet_region_remove(node, other, NULL, 0) == -ESHUTDOWN);
  CHECK(ulnet_region_add(node, memory, 4096, &other, error, sizeof(error)) == -ESHUTDOWN);
  ulnet_close(node);
  return 0;
}

int main(void) {
  return nids() || errors() || loopback() || both_roles() || regions();
}
