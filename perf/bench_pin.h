// For benchmarks whose threads must not share a CPU.
#pragma once
#include <pthread.h>
#include <sched.h>

namespace ulnet::perf {

/// The calling thread runs on this CPU only; no effect where the machine has no such CPU.
inline void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

}  // namespace ulnet::perf
