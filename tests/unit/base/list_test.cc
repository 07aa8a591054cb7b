// Tests of the intrusive list (dataplane/base/list.h).
#include "dataplane/base/list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace ulnet {
namespace {

struct ATag {};
struct BTag {};
struct Item : Linked<ATag>, Linked<BTag> {
  int number = 0;
};
using AList = List<Item, ATag>;
using BList = List<Item, BTag>;

std::vector<int> numbers(AList& list) {
  std::vector<int> out;
  for (Item* item = list.front(); item != nullptr; item = list.after(*item)) out.push_back(item->number);
  return out;
}

// Goal: every sequence of pushes, pops and removals gives what a vector gives.
// Method: all sequences of six steps out of 3 items x {push_back, push_front, remove} and pop, against a vector as
// model.
TEST(List, every_short_sequence_matches_a_vector) {
  constexpr int kSteps = 6, kChoices = 10;
  int total = 1;
  for (int i = 0; i < kSteps; ++i) total *= kChoices;
  for (int sequence = 0; sequence < total; ++sequence) {
    Item items[3];
    for (int i = 0; i < 3; ++i) items[i].number = i;
    AList list;
    std::vector<int> model;
    for (int rest = sequence, step = 0; step < kSteps; ++step, rest /= kChoices) {
      const int choice = rest % kChoices, which = choice / 3;
      if (choice == 9) {
        Item* popped = list.pop_front();
        ASSERT_EQ(popped == nullptr, model.empty());
        if (popped != nullptr) {
          ASSERT_EQ(popped->number, model.front());
          model.erase(model.begin());
        }
        continue;
      }
      const auto found = std::find(model.begin(), model.end(), which);
      ASSERT_EQ(items[which].Linked<ATag>::linked(), found != model.end());
      if (choice % 3 == 2) {
        if (found == model.end()) continue;
        list.remove(items[which]);
        model.erase(found);
      } else if (found == model.end()) {
        if (choice % 3 == 0)
          list.push_back(items[which]);
        else
          list.push_front(items[which]);
        model.insert(choice % 3 == 0 ? model.end() : model.begin(), which);
      }
    }
    ASSERT_EQ(list.size(), model.size());
    ASSERT_EQ(list.empty(), model.empty());
    ASSERT_EQ(numbers(list), model) << "sequence " << sequence;
  }
}

TEST(List, links_of_two_kinds_do_not_touch_each_other) {
  Item item;
  AList a;
  BList b;
  a.push_back(item);
  b.push_back(item);
  a.remove(item);
  EXPECT_FALSE(item.Linked<ATag>::linked());
  EXPECT_EQ(b.front(), &item);
}

TEST(ListDeath, misuse_is_found) {
  Item item;
  AList list, other;
  EXPECT_DEATH(list.remove(item), "broken invariant");
  list.push_back(item);
  EXPECT_DEATH(other.push_back(item), "broken invariant");
  EXPECT_DEATH(other.remove(item), "broken invariant");
}

}  // namespace
}  // namespace ulnet
