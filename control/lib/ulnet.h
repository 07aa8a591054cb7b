/* libulnet for C: LNet inside an application. Model, ownership, threads, events and errors: docs/libulnet.md. Functions
 * that can fail return 0 (or a count) or a negative errno; ulnet_strerror() and ulnet_submitter_reason() give the
 * reason in words. Structs are plain values. Pass handles back unchanged. */
#ifndef ULNET_H
#define ULNET_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ULNET_API_VERSION 1

/* A node in this process. Any thread may call, but not from within a callback. */
typedef struct ulnet_instance ulnet_t;
/* The interface of one thread to a node: all objects of a submitter belong to that thread. No call waits. */
typedef struct ulnet_submitter ulnet_submitter_t;

/* A NID in wire form; all ones = any. */
typedef struct ulnet_nid {
  uint8_t bytes[20];
} ulnet_nid_t;

/* Handles. All bytes zero = "none". */
typedef struct ulnet_md {
  uint16_t worker, submitter;
  uint32_t index, generation;
} ulnet_md_t;
typedef struct ulnet_eq {
  uint16_t worker, submitter;
  uint32_t index, generation;
} ulnet_eq_t;

#define ULNET_PID_LNET 12345u
#define ULNET_PID_ANY 0xFFFFFFFFu
#define ULNET_INFINITE 0xFFFFFFFFu /* threshold that never runs out; length: to the end of the MD */
#define ULNET_PAYLOAD_MAX (1u << 20)
#define ULNET_SEGMENTS_MAX 256u
#define ULNET_PORTALS 64u

enum ulnet_mode { ULNET_SOCKETS, ULNET_OWN_EAL, ULNET_ATTACH };

typedef struct ulnet_options {
  const char* config;                           /* YAML, or NULL */
  const char* config_path;                      /* file with YAML, or NULL */
  int mode;                                     /* enum ulnet_mode */
  void (*log)(void* context, const char* line); /* from the node's own thread; or NULL */
  void* log_context;
} ulnet_options_t;

/* Starts a node and waits until its configuration is in force. On failure, writes a sentence of at most error_bytes to
 * `error` (may be NULL), with the place in the configuration. */
int ulnet_open(const ulnet_options_t* options, ulnet_t** out, char* error, size_t error_bytes);
/* Stops the node cleanly, in at most 15 s: afterwards no event comes, and all memory is yours. The instance can still
 * be polled and turned; other calls fail with ESHUTDOWN. Call this if you must wait for other threads before
 * ulnet_close(). */
void ulnet_stop(ulnet_t* instance);
/* ulnet_stop(), then frees the instance with all its submitters: no other thread may use them. NULL is allowed. */
void ulnet_close(ulnet_t* instance);
/* NIDs of this node, the primary first. Returns their number; writes at most `max`. */
int ulnet_nids(ulnet_t* instance, ulnet_nid_t* out, size_t max);
unsigned ulnet_workers(const ulnet_t* instance);
/* Applies more configuration, YAML: either all of it or nothing. */
int ulnet_apply(ulnet_t* instance, const char* config, char* error, size_t error_bytes);
/* LNet ping: the NIDs that the node at `nid` reports. Waits at most timeout_ms. Returns their number; writes at most
 * `max`. Errors: EIO (no answer in time), EPROTO (the answer is not a list of NIDs), ESHUTDOWN. The errors of an
 * event's status are possible, too (docs/libulnet.md), for instance EHOSTUNREACH. */
int ulnet_ping(ulnet_t* instance, const ulnet_nid_t* nid, unsigned timeout_ms, ulnet_nid_t* out, size_t max);

/* "10.0.0.1@tcp" and back. The text needs at most 64 bytes. */
int ulnet_nid_parse(const char* text, ulnet_nid_t* out);
int ulnet_nid_text(const ulnet_nid_t* nid, char* out, size_t bytes);
ulnet_nid_t ulnet_nid_any(void);

typedef struct ulnet_submitter_size {
  uint32_t ops, mds, eqs, segment_blocks;
} ulnet_submitter_size_t;

/* size NULL = 1024 ops, 1024 MDs, 16 EQs, 64 MDs of more than 4 segments. Each of the first three is 1 to 1048576, the
 * last at most 65536. */
int ulnet_submitter_open(ulnet_t* instance, unsigned worker, const ulnet_submitter_size_t* size,
                         ulnet_submitter_t** out);
/* First unlink all MDs and wait for their ULNET_UNLINK: after this call no event reports that memory is free. */
void ulnet_submitter_close(ulnet_t* instance, ulnet_submitter_t* submitter);
/* The reason why the last failing call on this submitter failed: a static sentence. */
const char* ulnet_submitter_reason(const ulnet_submitter_t* submitter);

enum ulnet_portal_mode { ULNET_PORTAL_SINGLE = 1, ULNET_PORTAL_HASHED = 2, ULNET_PORTAL_PER_WORKER = 3 };
/* The portal's home is the submitter's worker. Waits for the control thread. */
int ulnet_portal_open(ulnet_t* instance, ulnet_submitter_t* submitter, unsigned portal, int mode, int lazy);
int ulnet_portal_close(ulnet_t* instance, unsigned portal);

/* Registers memory once, for drivers with remote writes: an MD in it is bound at once, on each submitter. Without a
 * region, such a driver registers the memory for each MD again, which is slow (docs/libulnet.md). The memory stays
 * yours: keep it until ulnet_region_remove() has returned 0, or the instance is closed. `region` gets a number, never
 * 0. Waits for the control thread and the device. On failure, writes a sentence of at most error_bytes to `error` (may
 * be NULL). Errors: EINVAL (no byte, or beyond the address space), EEXIST (overlaps another region), ENOSPC (1024
 * regions, of which one is the node's). Also: those of the device, such as ENOMEM, and ESHUTDOWN: then keep the memory
 * until ulnet_close() has returned. */
int ulnet_region_add(ulnet_t* instance, void* base, size_t bytes, uint32_t* region, char* error, size_t error_bytes);
/* Gives the memory back to you. Errors: ENOENT (no such region), EBUSY (an MD lies in it: wait for its ULNET_UNLINK
 * first), EALREADY (another call removes it), ESHUTDOWN. */
int ulnet_region_remove(ulnet_t* instance, uint32_t region, char* error, size_t error_bytes);

enum ulnet_event_kind { ULNET_PUT, ULNET_GET, ULNET_REPLY, ULNET_ACK, ULNET_SEND, ULNET_UNLINK };

/* One event; see the table in docs/libulnet.md. */
typedef struct ulnet_event {
  uint8_t kind;   /* enum ulnet_event_kind */
  uint8_t final;  /* 1: the one event that ends a put or get */
  int32_t status; /* 0 or a negative errno */
  uint32_t portal;
  uint32_t rlength; /* requested */
  uint32_t mlength; /* moved */
  uint32_t offset;  /* where in the MD */
  uint32_t initiator_pid;
  uint64_t match_bits;
  uint64_t hdr_data;
  uint64_t user_data; /* given to ulnet_put() or ulnet_get() */
  void* user_ptr;     /* given to ulnet_md_bind() */
  ulnet_md_t md;
  ulnet_nid_t initiator; /* primary NID of the node that started the message */
  ulnet_nid_t source;    /* source NID in the message */
  ulnet_nid_t sender;    /* the last hop */
  ulnet_nid_t target;    /* local NID that received the message, or the NID that it was sent to */
} ulnet_event_t;

/* Called on the home worker; must not block. A callback may make calls on its own submitter only. If it does, no other
 * code may make calls on that submitter. */
typedef void (*ulnet_callback_t)(void* context, const ulnet_event_t* event);

/* Opens a queue of at least `size` events to poll (callback NULL), or a queue that calls `callback` (size 0). This call
 * allocates: make it at start. */
int ulnet_eq_open(ulnet_submitter_t* submitter, uint32_t size, ulnet_callback_t callback, void* context,
                  ulnet_eq_t* out);
int ulnet_eq_close(ulnet_submitter_t* submitter, ulnet_eq_t eq);
/* Takes up to `max` events; returns their number. */
int ulnet_eq_poll(ulnet_submitter_t* submitter, ulnet_eq_t eq, ulnet_event_t* out, unsigned max);
/* A descriptor to sleep on, for poll(), epoll_wait() or a loop of another library. Before each sleep call
 * ulnet_eq_arm(). If the result is 1, sleep: the descriptor becomes readable when an event comes. If the result is 0,
 * do not sleep, but poll: events are there, the handle is stale, or ulnet_eq_fd() was not called. ulnet_eq_poll() ends
 * what ulnet_eq_arm() has begun. Sometimes the descriptor is readable without an event. The descriptor is the queue's:
 * do not read from it, and do not close it. A queue that is opened later may have the same descriptor. If a call has
 * returned -EAGAIN, no event may come for it: sleep only for a short time. ulnet_eq_fd() returns the descriptor, or
 * -EXDEV, -ENOENT (no such queue), -EINVAL (queue with a callback), -EMFILE. */
int ulnet_eq_fd(ulnet_submitter_t* submitter, ulnet_eq_t eq);
int ulnet_eq_arm(ulnet_submitter_t* submitter, ulnet_eq_t eq);
/* As ulnet_eq_poll(), but sleeps at most timeout_ms until the first event comes. */
int ulnet_eq_wait(ulnet_submitter_t* submitter, ulnet_eq_t eq, ulnet_event_t* out, unsigned max, unsigned timeout_ms);

enum ulnet_md_option {
  ULNET_MD_PUT = 1,           /* a PUT may match the MD */
  ULNET_MD_GET = 2,           /* a GET may match the MD */
  ULNET_MD_TRUNCATE = 4,      /* a message longer than the room is cut, not dropped */
  ULNET_MD_MANAGE_REMOTE = 8, /* the initiator gives the offset; else the MD's own offset grows */
  ULNET_MD_ACK_DISABLE = 16,  /* never send an ACK for a PUT into the MD */
  ULNET_MD_NO_TRACK = 32,     /* no response timeout: after a lost ACK or REPLY, waits until unlinked */
  ULNET_MD_TRACK = 64,        /* response timeout, whatever the setting response_tracking (as its default) */
  ULNET_MD_NUMA = 128,        /* `numa` is given */
  ULNET_MD_ACCELERATOR = 256  /* `accelerator` is given */
};

typedef struct ulnet_segment {
  void* base;
  uint32_t bytes;
} ulnet_segment_t;

/* Start from ulnet_md_defaults(). */
typedef struct ulnet_md_spec {
  const ulnet_segment_t* segments; /* the list is copied; the memory is lent until ULNET_UNLINK */
  uint32_t segment_count;
  uint32_t threshold; /* operations after which the MD unlinks itself */
  uint32_t max_size;  /* the MD unlinks itself if less room is left */
  uint32_t options;   /* enum ulnet_md_option */
  void* user_ptr;
  ulnet_eq_t eq;        /* zero: no events */
  uint32_t numa;        /* NUMA node of the memory. Without ULNET_MD_NUMA, ulnet_md_bind() looks it up if there are
                         * several */
  uint32_t accelerator; /* number of the accelerator that holds the memory. Without ULNET_MD_ACCELERATOR, none does */
} ulnet_md_spec_t;
ulnet_md_spec_t ulnet_md_defaults(void);
int ulnet_md_bind(ulnet_submitter_t* submitter, const ulnet_md_spec_t* spec, ulnet_md_t* out);
/* Ends an MD; when its memory is free, ULNET_UNLINK comes. */
int ulnet_unlink(ulnet_submitter_t* submitter, ulnet_md_t md);

enum ulnet_position { ULNET_HEAD, ULNET_TAIL };
/* Attaches a bound MD. initiator NULL = any NID; a bit set in ignore_bits need not match. */
int ulnet_me_attach(ulnet_submitter_t* submitter, unsigned portal, const ulnet_nid_t* initiator, uint32_t initiator_pid,
                    uint64_t match_bits, uint64_t ignore_bits, int position, ulnet_md_t md);

/* One put or get. Start from ulnet_op_defaults(). */
typedef struct ulnet_op {
  ulnet_md_t md;
  ulnet_nid_t self; /* source NID; any = chosen */
  ulnet_nid_t target;
  uint32_t target_pid;
  uint32_t portal;
  uint64_t match_bits;
  uint64_t hdr_data; /* put only */
  uint64_t user_data;
  uint32_t offset; /* in the target's MD, if that is remote-managed */
  uint32_t md_offset;
  uint32_t length;
  int ack; /* put only; 1: ends when the target has the data, 0: ends when the data has left */
} ulnet_op_t;
ulnet_op_t ulnet_op_defaults(void);
/* 0 = accepted: if the MD has a queue, exactly one event with `final` comes. */
int ulnet_put(ulnet_submitter_t* submitter, const ulnet_op_t* op);
int ulnet_get(ulnet_submitter_t* submitter, const ulnet_op_t* op);

/* The meaning of a negative errno of libulnet: a static sentence. */
const char* ulnet_strerror(int error);

/* ULNET_ATTACH only: one and the same thread calls these for a worker, from the first turn to the last. ulnet_turn() is
 * one bounded turn and returns the work done. ulnet_wait() sleeps until there is work, at most timeout_ms.
 * ulnet_stop() and ulnet_close() turn the workers that the calling thread has turned, and those that no thread has
 * turned. Threads of other workers must turn until ulnet_stop() returns; else their workers are given up 2 s after
 * their last turn. */
unsigned ulnet_turn(ulnet_t* instance, unsigned worker);
void ulnet_wait(ulnet_t* instance, unsigned worker, unsigned timeout_ms);

#ifdef __cplusplus
}
#endif
#endif
