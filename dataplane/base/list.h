// Intrusive doubly linked list: an object carries one link per list kind (by tag) and is in at most one list of that
// kind. No allocation; O(1) insert and remove. One owner thread per list.
#pragma once
#include <cstdint>

#include "dataplane/base/check.h"

namespace ulnet {

/// Base class that makes an object linkable. The tag tells several links of one object apart.
template <class Tag>
struct Linked {
  Linked* prev = nullptr;
  Linked* next = nullptr;
  [[nodiscard]] bool linked() const { return next != nullptr; }
  // Not copyable: a copy would not be in the list that it points into.
  Linked() = default;
  Linked(const Linked&) = delete;
  Linked& operator=(const Linked&) = delete;
};

/// FIFO with removal from the middle. T derives from Linked<Tag>.
template <class T, class Tag>
class List {
 public:
  using Node = Linked<Tag>;
  List() { head_.prev = head_.next = &head_; }
  List(const List&) = delete;
  List& operator=(const List&) = delete;

  [[nodiscard]] bool empty() const { return head_.next == &head_; }
  [[nodiscard]] uint32_t size() const { return size_; }
  [[nodiscard]] T* front() { return empty() ? nullptr : static_cast<T*>(head_.next); }
  [[nodiscard]] T* back() { return empty() ? nullptr : static_cast<T*>(head_.prev); }
  void push_back(T& item) { insert(static_cast<Node&>(item), head_.prev, &head_); }
  void push_front(T& item) { insert(static_cast<Node&>(item), &head_, head_.next); }
  T* pop_front() {
    T* item = front();
    if (item != nullptr) remove(*item);
    return item;
  }
  /// Requires: `item` is in this list.
  void remove(T& item) {
    Node& node = item;
    ULNET_CHECK(node.linked() && size_ > 0);
    node.prev->next = node.next;
    node.next->prev = node.prev;
    node.prev = node.next = nullptr;
    --size_;
  }
  /// The one after `item`, or null at the end.
  [[nodiscard]] T* after(T& item) {
    Node* next = static_cast<Node&>(item).next;
    return next == &head_ ? nullptr : static_cast<T*>(next);
  }

 private:
  void insert(Node& node, Node* before, Node* behind) {
    ULNET_CHECK(!node.linked());
    node.prev = before;
    node.next = behind;
    before->next = &node;
    behind->prev = &node;
    ++size_;
  }
  Node head_;
  uint32_t size_ = 0;
};

}  // namespace ulnet
