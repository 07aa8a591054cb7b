// The number of packets that a requester may have under way. A loss or a congestion notification halves the number, and
// acknowledgements raise it slowly (additive increase, multiplicative decrease). Pure. Thread: the worker of the queue
// pair.
#pragma once
#include <algorithm>
#include <cstdint>

#include "lnd/rc/roce/proto/psn.h"

namespace ulnet::rc::roce {

inline constexpr uint32_t kWindowLeast = 2, kWindowFirst = 32, kWindowMost = 256;  ///< packets

class Window {
 public:
  [[nodiscard]] uint32_t packets() const { return packets_; }

  /// These packets are acknowledged, the last of them before `next`. Below the threshold the window grows by each of
  /// them, above it by one for each whole window.
  void acknowledged(uint32_t packets, Psn next) {
    if (recovering_ && next - recovered_ >= 0) recovering_ = false;
    if (recovering_ && packets_ >= threshold_) return;
    credit_ += packets;
    const uint32_t step = packets_ < threshold_ ? 1 : packets_;
    packets_ = std::min(packets_ + credit_ / step, kWindowMost);
    credit_ %= step;
  }
  /// A packet is lost, or a switch was congested. Further signs count when all before `sent` is acknowledged.
  void halve(Psn sent) {
    if (recovering_) return;
    packets_ = threshold_ = half();
    recover(sent);
  }
  /// Nothing was acknowledged for a whole timeout. Further ones in a row do not lower the threshold again.
  void collapse(Psn sent) {
    if (!recovering_ || packets_ > kWindowLeast) threshold_ = half();
    packets_ = kWindowLeast;
    recover(sent);
  }

 private:
  [[nodiscard]] uint32_t half() const { return std::max(packets_ / 2, kWindowLeast); }
  void recover(Psn sent) {
    recovering_ = true;
    recovered_ = sent;
    credit_ = 0;
  }

  uint32_t packets_ = kWindowFirst;
  uint32_t threshold_ = kWindowMost;
  uint32_t credit_ = 0;  ///< acknowledged packets that have not made the window larger yet
  bool recovering_ = false;
  Psn recovered_;  ///< when this one is the oldest that is not acknowledged
};

}  // namespace ulnet::rc::roce
