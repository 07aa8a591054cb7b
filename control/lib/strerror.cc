// The meaning of error numbers in libulnet: the table of docs/libulnet.md.
#include <cerrno>

#include "control/lib/ulnet.h"

namespace {

struct Text {
  int code;
  const char* text;
};
constexpr Text kTexts[] = {
    {0, "success"},
    {EADDRNOTAVAIL, "the source NID is no NID of this node"},
    {EAGAIN, "no room at this moment: the ring to the worker is full, or submitters are still being closed; try again"},
    {EALREADY, "another call does this already"},
    {EBUSY, "in use already"},
    {ECANCELED, "its MD was unlinked during the operation"},
    {ECONNREFUSED, "the peer refuses connections"},
    {ECONNRESET, "the connection broke"},
    {EEXIST, "the memory overlaps a region"},
    {EHOSTUNREACH, "no way to the target: no net, route or gateway leads there"},
    {EINVAL, "not a valid request"},
    {EIO, "no usable answer"},
    {EMSGSIZE, "not of the agreed length"},
    {ENETUNREACH, "every NI on the net of the target is being deleted"},
    {ENOBUFS, "too many messages wait for their peers to be looked up; try again later"},
    {ENOENT, "no such MD, queue, portal or region, or it has ended"},
    {ENOMEM, "no memory"},
    {ENOSPC, "all slots of this kind are in use"},
    {EPROTO, "the peer broke the protocol"},
    {ESHUTDOWN, "the node is stopping"},
    {ETIMEDOUT, "no response within the transaction timeout; the message may have been delivered nevertheless"},
    {EXDEV, "the object belongs to another submitter or worker"},
};

}  // namespace

extern "C" const char* ulnet_strerror(int error) {
  const int code = error < 0 ? -error : error;
  for (const Text& one : kTexts)
    if (one.code == code) return one.text;
  return "failed; see errno(3) for the number";
}
