"""Calls that have a better replacement here, by folder. The files in `but` are the ones that the call belongs to."""
import collections

Ban = collections.namedtuple('Ban', 'rule pattern where but instead')

PRODUCT = ('dataplane', 'lnd', 'control', 'tools', 'config')
INSIDE = ('dataplane', 'lnd', 'control', 'config')

# Code that runs on workers, or beside them on an application's thread, wherever it lives.
WORKER = (
    'dataplane', 'lnd',
    'control/lib/node_turnables.h', 'control/lib/turners.h', 'control/lib/turners.cc', 'control/lib/eq_wait.cc',
    'control/lib/trampoline.h',
    'perf/generator/generator.*', 'perf/generator/histogram.h', 'perf/generator/operations.cc',
    'perf/generator/pattern.h', 'perf/generator/target.*',
    'perf/wire/apps.*',
)

# Files in these folders that run on control or before the workers start, and nowhere else: text forms, start-up, and
# the control halves of LNDs.
CONTROL_SIDE = (
    'dataplane/*/*_text.h', 'dataplane/*/*_text.cc', 'dataplane/base/check.cc',
    'dataplane/base/problem.h',
    'dataplane/wire/ping_info.cc', 'dataplane/wire/ping_info.h',
    'dataplane/host/host.h', 'dataplane/host/host.cc', 'dataplane/host/launcher.h',
    'dataplane/host/topology.h', 'dataplane/host/topology.cc', 'dataplane/host/machine.cc',
    'lnd/registry.h', 'lnd/registry.cc',
    'lnd/driver.h', 'lnd/drivers.cc', 'lnd/*/driver.cc', 'lnd/*/fields.cc',  # start-up and configuration
    'lnd/*_ctl.h', 'lnd/*_ctl.cc',  # shared by control halves
    'lnd/*/*_ctl.h', 'lnd/*/*_ctl.cc', 'lnd/*/*_ctl_*.cc',
    'lnd/*/net_io*', 'lnd/*/engine/*net_io*',  # sockets of a control half
    'lnd/net/dpdk/eal.h', 'lnd/net/dpdk/eal*.cc', 'lnd/net/dpdk/live_port.h', 'lnd/net/dpdk/live_port.cc',
    'lnd/net/dpdk/pool_plan.h', 'lnd/net/dpdk/pool_plan.cc', 'lnd/net/dpdk/port.h', 'lnd/net/dpdk/port.cc',
    'lnd/net/dpdk/port_config.h', 'lnd/net/dpdk/port_config.cc',
    'lnd/net/kernel/devices.h', 'lnd/net/kernel/devices.cc',
    'lnd/net/kernel/kernel_link.h', 'lnd/net/kernel/kernel_link.cc',
    'lnd/net/*/*_text.h', 'lnd/net/*/*_text.cc',
    'lnd/net/*/*_ctl.h', 'lnd/net/*/*_ctl.cc',
    'lnd/rc/*/*_ctl.h', 'lnd/rc/*/*_ctl.cc',
)

# Files with both sides. Their parts that start up or show need one rule lifted; all other bans hold for the whole file.
BOTH_SIDES = {
    'alloc': ('lnd/net/dpdk/capture.cc', 'lnd/net/dpdk/packet.cc', 'lnd/net/dpdk/port_worker.cc',
              'perf/generator/generator.cc'),
    'function-object': ('lnd/net/dpdk/port_worker.h', 'control/lib/turners.h', 'control/lib/turners.cc',
                        'perf/generator/generator.h',
                        'lnd/rc/sim'),  # one thread of a test plays all
    'text': ('dataplane/host/threads.h',  # the name of a thread
             'lnd/lnd.h', 'lnd/rc/rc.h',  # both halves' interfaces
             'lnd/net/dpdk/capture.h', 'lnd/net/dpdk/capture.cc', 'lnd/net/dpdk/packet.h', 'lnd/net/dpdk/packet.cc',
             'perf/wire/apps.h'),
}

BANNED = [
    Ban('clock',
        r'\b(?:steady_clock|system_clock|high_resolution_clock)\s*::\s*now\b'
        r'|\b(?:clock_gettime|gettimeofday)\s*\(|\btime\s*\(\s*(?:nullptr|NULL|0|&\w+)\s*\)',
        INSIDE + WORKER, ('dataplane/host/clock.h',),
        'use the `now` that the turn hands down; only dataplane/host/clock.h reads a clock'),
    Ban('clock',
        r'\b_*rdtscp?\s*\(|\brte_rdtsc\w*\s*\(|\brte_get_(?:tsc|timer)_cycles\s*\(',
        INSIDE + WORKER, ('dataplane/host/clock.h',),
        'use the `now` that the turn hands down; dataplane/host/clock.h counts cycles'),
    Ban('random',
        r'\b(?:s?rand|random|drand48|rand_r|getrandom)\s*\('
        r'|\bstd::(?:random_device|mt19937(?:_64)?|default_random_engine)\b',
        PRODUCT + WORKER, ('dataplane/host/random_seed.h',),
        'draw from the Rng& that was handed in (dataplane/base/rng.h): a seed must give the same run'),
    Ban('print',
        r'\b(?:f|s|sn|v|vsn|vf)?printf\s*\(|\bputs\s*\(|\bperror\s*\('
        r'|\bstd::(?:cout|cerr|clog)\b|#\s*include\s*<iostream>',
        INSIDE + WORKER, ('dataplane/base/check.cc', 'tools/ulnetd/log.cc'),
        'count it (dataplane/base/counters.h), or let control say it through its log'),
    Ban('alloc',
        r'(?<!operator )(?<!\w)new\s+[A-Za-z_:]|\b(?:malloc|calloc|realloc|strdup|posix_memalign|aligned_alloc)\s*\(',
        WORKER, CONTROL_SIDE + BOTH_SIDES['alloc'],
        'take it from a pool made at start (dataplane/base/slab.h), or make_unique in a constructor'),
    Ban('lock',
        r'\bstd::(?:mutex|shared_mutex|recursive_mutex|timed_mutex|condition_variable(?:_any)?|lock_guard|unique_lock'
        r'|scoped_lock|counting_semaphore|latch|barrier)\b|\bpthread_(?:mutex|cond|rwlock|spin)_\w+',
        WORKER, (),
        'give the state one owner and send it a message through a ring (dataplane/base/ring.h)'),
    Ban('fence',
        r'\batomic_thread_fence\b|\batomic_signal_fence\b',
        PRODUCT, (),
        'use release/acquire or seq_cst on the atomic itself: TSan does not know fences'),
    Ban('exception',
        r'\bthrow\b',
        INSIDE, ('config/load*.cc', 'dataplane/host/memory_reserve.cc'),
        'return fail(errno, "sentence") (dataplane/base/result.h)'),
    Ban('exception',
        r'\bcatch\s*\(',
        ('dataplane', 'lnd', 'config'), ('config/load*.cc',),
        'only config/load*.cc meets exceptions (those of yaml-cpp)'),
    Ban('function-object',
        r'\bstd::function\b',
        WORKER, CONTROL_SIDE + BOTH_SIDES['function-object'],
        'take a template parameter, or an interface that is called at burst level'),
    Ban('shared',
        r'\bstd::(?:shared_ptr|weak_ptr|make_shared|enable_shared_from_this)\b',
        WORKER, CONTROL_SIDE,
        'name the one owner; others hold a Handle (dataplane/base/slab.h)'),
    Ban('text',
        r'\bstd::(?:string|to_string|ostringstream|stringstream|format)\b|\bfmt::\w+',
        WORKER, CONTROL_SIDE + BOTH_SIDES['text'],
        'text is made on the control side: *_text.{h,cc}, *_ctl.cc, control/'),
    Ban('assert',
        r'(?<!\w)assert\s*\(|#\s*include\s*<cassert>',
        PRODUCT, (),
        'ULNET_CHECK (dataplane/base/check.h) stays on in release builds'),
    Ban('blocking',
        r'\bsleep_(?:for|until)\b'
        r'|(?<![\w.:>])(?:sleep|usleep|nanosleep|system|popen|getaddrinfo|gethostbyname)\s*\(',
        WORKER + ('control',), (),
        'a worker and control never block: set a deadline and look again in a later turn'),
    Ban('deadline',
        r'\bnext_deadline\b',
        ('control',), ('control/node.*', 'control/lib/*', 'control/api/*'),
        'hold a SlowTimer (control/timers.h): control sleeps until the first of them'),
    Ban('error-type',
        r'\b(?:struct|class)\s+\w*(?:Error|Problem|Refused|Refusal|Failure)\s*\{',
        PRODUCT + ('perf',), ('dataplane/base/result.h', 'dataplane/base/problem.h', 'control/api/schema.h'),
        'return Error (dataplane/base/result.h), Problem (base/problem.h), or ApiError to the control socket'),
    Ban('thread-local',
        r'\bthread_local\b',
        PRODUCT, (),
        'pass Worker& or Control&; whoever has no such reference cannot call'),
]
