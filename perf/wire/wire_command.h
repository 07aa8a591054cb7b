// `ulnet-perf wire`: the raw frame path of a packet port (perf/wire/wire_run.h), without LNet.
#pragma once

namespace ulnet::perf {

/// `argv[0]` is the word "wire". Returns the exit status.
int wire(int argc, char** argv);

}  // namespace ulnet::perf
