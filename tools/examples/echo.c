/* An echo pair: each side is one thread that turns its own worker (ULNET_ATTACH), so that a call or an event crosses no
 * thread. A ping is a PUT; the other side answers with a PUT of the same bytes. None is acknowledged: the answer says
 * it all.
 *
 *   echo serve NID                              answer until SIGINT or SIGTERM
 *   echo ping NID TARGET [COUNT [BYTES]]        from NID, send COUNT pings (100000) of BYTES (64) to TARGET
 *
 * In front of these, --sleep lets a thread sleep if 50 us bring nothing; without it, both threads spin. The last line
 * of ping has round trips in microseconds. Run it as root, or with --unprivileged on both sides.
 *
 * Build: cc echo.c $(pkg-config --cflags --libs ulnet) */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ulnet.h>

#define PORTAL 21
#define BITS 0xEC40u
#define WORKER 0
#define BYTES_MAX 65536
#define WARM_UP 1000
#define SPIN_NS 50000u
#define ANSWER_MS 5000u

typedef struct side {
  ulnet_t* node;
  ulnet_submitter_t* submitter;
  ulnet_eq_t eq;
  ulnet_md_t in, out; /* both on `memory`: an MD on a portal starts no puts */
  int may_sleep;
  uint64_t idle_since; /* ns; 0 = the last turn found work */
  char memory[BYTES_MAX];
} side_t;

static volatile sig_atomic_t stopped;

static void stop(int number) {
  (void)number;
  stopped = 1;
}

static uint64_t now_ns(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

static int failed(const char* what, int error) {
  fprintf(stderr, "echo: %s: %s (%d)\n", what, ulnet_strerror(error), error);
  return 1;
}

/* Binds `bytes` of the memory. */
static int bind_memory(side_t* side, uint32_t bytes, uint32_t options, ulnet_md_t* md) {
  const ulnet_segment_t segment = {side->memory, bytes};
  ulnet_md_spec_t spec = ulnet_md_defaults();
  spec.segments = &segment;
  spec.segment_count = 1;
  spec.options = options;
  spec.eq = side->eq;
  return ulnet_md_bind(side->submitter, &spec, md);
}

static int side_open(side_t* side, const char* nid, int unprivileged) {
  char config[256], error[512];
  ulnet_options_t options = {0};
  int code;
  snprintf(config, sizeof(config),
           "net:\n    - net type: tcp\n      local NI(s):\n        - nid: \"%s\"\n"
           "ulnet:\n    workers: 1\n    unprivileged_ports: %s\n",
           nid, unprivileged ? "true" : "false");
  options.config = config;
  options.mode = ULNET_ATTACH;
  if (ulnet_open(&options, &side->node, error, sizeof(error)) != 0) {
    fprintf(stderr, "echo: cannot start %s: %s\n", nid, error);
    return 1;
  }
  if ((code = ulnet_submitter_open(side->node, WORKER, NULL, &side->submitter)) != 0) return failed("submitter", code);
  if ((code = ulnet_portal_open(side->node, side->submitter, PORTAL, ULNET_PORTAL_SINGLE, 0)) != 0)
    return failed("portal", code);
  if ((code = ulnet_eq_open(side->submitter, 256, NULL, NULL, &side->eq)) != 0) return failed("queue", code);
  if ((code = bind_memory(side, BYTES_MAX, ULNET_MD_PUT | ULNET_MD_MANAGE_REMOTE, &side->in)) != 0)
    return failed("bind", code);
  if ((code = bind_memory(side, BYTES_MAX, 0, &side->out)) != 0) return failed("bind", code);
  code = ulnet_me_attach(side->submitter, PORTAL, NULL, ULNET_PID_ANY, BITS, 0, ULNET_TAIL, side->in);
  return code == 0 ? 0 : failed("attach", code);
}

/* One turn of the worker; sleeps when it may and there is nothing to do. */
static void side_turn(side_t* side) {
  if (ulnet_turn(side->node, WORKER) > 0) {
    side->idle_since = 0;
  } else if (side->may_sleep) {
    const uint64_t now = now_ns();
    if (side->idle_since == 0) side->idle_since = now;
    if (now - side->idle_since >= SPIN_NS) ulnet_wait(side->node, WORKER, 100);
  }
}

static int send_bytes(side_t* side, const ulnet_nid_t* target, uint32_t bytes) {
  ulnet_op_t op = ulnet_op_defaults();
  int error;
  op.md = side->out;
  op.target = *target;
  op.portal = PORTAL;
  op.match_bits = BITS;
  op.length = bytes;
  op.ack = 0;
  error = ulnet_put(side->submitter, &op);
  return error == 0 ? 0 : failed(ulnet_submitter_reason(side->submitter), error);
}

/* Turns until a PUT has come, or for at most `ms` (0 = until a signal). 1: it has come, 0: it has not, -1: failed. */
static int receive(side_t* side, uint64_t ms, ulnet_event_t* put) {
  const uint64_t from = ms == 0 ? 0 : now_ns();
  unsigned turns = 0;
  while (!stopped) {
    side_turn(side);
    while (ulnet_eq_poll(side->submitter, side->eq, put, 1) == 1) {
      if (put->status != 0) return failed(put->final ? "put" : "event", put->status), -1;
      if (put->kind == ULNET_PUT) return 1;
    }
    if (ms != 0 && (side->may_sleep || ++turns % 64 == 0) && now_ns() - from > ms * 1000000u) return 0;
  }
  return 0;
}

static int serve(side_t* side) {
  ulnet_event_t put;
  printf("serving\n");
  fflush(stdout);
  while (!stopped) { /* a client that leaves ends only its own messages */
    const int got = receive(side, 0, &put);
    if (got == 1 && send_bytes(side, &put.initiator, put.mlength) != 0) return 1;
    if (got < 0 && put.kind == ULNET_UNLINK) return 1;
  }
  return 0;
}

static int smaller(const void* a, const void* b) {
  const uint32_t x = *(const uint32_t*)a, y = *(const uint32_t*)b;
  return (x > y) - (x < y);
}

static int ping(side_t* side, const char* target, uint32_t count, uint32_t bytes) {
  uint32_t* const took = malloc(count * sizeof(*took));
  ulnet_nid_t nid;
  ulnet_event_t put;
  uint64_t sum = 0;
  int status = 1;
  if (took == NULL) return failed("memory", -12);
  if (ulnet_nid_parse(target, &nid) != 0) {
    fprintf(stderr, "echo: '%s' is no NID; write for example 10.0.0.2@tcp\n", target);
    goto end;
  }
  for (uint32_t i = 0; i < WARM_UP + count; ++i) {
    const uint64_t from = now_ns();
    if (bytes >= sizeof(i)) memcpy(side->memory, &i, sizeof(i));
    if (send_bytes(side, &nid, bytes) != 0) goto end;
    if (receive(side, ANSWER_MS, &put) != 1) {
      fprintf(stderr, "echo: ping %u: %s\n", i, stopped ? "stopped by a signal" : "no answer");
      goto end;
    }
    if (put.mlength != bytes || (bytes >= sizeof(i) && memcmp(side->memory, &i, sizeof(i)) != 0)) {
      fprintf(stderr, "echo: ping %u: the answer is another\n", i);
      goto end;
    }
    if (i >= WARM_UP) sum += took[i - WARM_UP] = (uint32_t)(now_ns() - from);
  }
  qsort(took, count, sizeof(*took), smaller);
  printf("%u pings of %u bytes: mean %.2f p50 %.2f p99 %.2f max %.2f us\n", count, bytes,
         (double)sum / count / 1000, took[count / 2] / 1e3, took[count - 1 - count / 100] / 1e3,
         took[count - 1] / 1e3);
  status = 0;
end:
  free(took);
  return status;
}

/* A number of 1 to `most`; 0 if the text is none. */
static uint32_t number(const char* text, uint32_t most) {
  char* end;
  const unsigned long value = strtoul(text, &end, 10);
  return *text == '\0' || *text == '-' || *end != '\0' || value > most ? 0 : (uint32_t)value;
}

int main(int argc, char** argv) {
  static side_t side;
  uint32_t count = 100000, bytes = 64;
  int unprivileged = 0, status;
  for (; argc > 1 && argv[1][0] == '-'; --argc, ++argv) {
    if (strcmp(argv[1], "--sleep") == 0) {
      side.may_sleep = 1;
    } else if (strcmp(argv[1], "--unprivileged") == 0) {
      unprivileged = 1;
    } else {
      break;
    }
  }
  const int serving = argc == 3 && strcmp(argv[1], "serve") == 0;
  const int pinging = argc >= 4 && argc <= 6 && strcmp(argv[1], "ping") == 0;
  if (pinging && argc > 4) count = number(argv[4], 10000000);
  if (pinging && argc > 5) bytes = number(argv[5], BYTES_MAX);
  if ((!serving && !pinging) || count == 0 || bytes == 0) {
    fprintf(stderr, "usage: echo [--sleep] [--unprivileged] serve NID\n"
                    "       echo [--sleep] [--unprivileged] ping NID TARGET [COUNT [BYTES]]\n"
                    "COUNT is 1 to 10000000 (100000), BYTES 1 to 65536 (64)\n");
    return 2;
  }
  signal(SIGINT, stop);
  signal(SIGTERM, stop);
  status = side_open(&side, argv[2], unprivileged);
  if (status == 0) status = serving ? serve(&side) : ping(&side, argv[3], count, bytes);
  ulnet_close(side.node);
  return status;
}
