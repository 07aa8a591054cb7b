// ULNET_COLD stands for gnu::cold, but not with ASan. GCC 12 does not free ASan's copy of a frame at the end of a cold
// function whose frame has 512 bytes to 1 KiB. When all copies of a size are used up, each call searches them. Then
// tests take up to ten times as long, and ASan misses uses after return.
#pragma once

#ifdef __SANITIZE_ADDRESS__
#define ULNET_COLD gnu::noinline
#else
#define ULNET_COLD gnu::cold
#endif
