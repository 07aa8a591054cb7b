// Tests of credits and their queue (dataplane/state/credits.h), exhaustive for small totals.
#include "dataplane/state/credits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace ulnet {
namespace {

struct Tag {};
struct Item : Linked<Tag> {};

constexpr int kItems = 4, kTotalMax = 3;

/// One operation: `kTake` for the first item that neither holds a credit nor waits, `kLeave` of the nth that waits,
/// `kTotal` to a new total. After a higher total, the owner hands on credits with `kHandOn`, perhaps with other
/// operations in between.
struct Step {
  enum Kind { kTake, kGiveBack, kLeave, kTotal, kHandOn, kResetMin } kind = kTake;
  int which = 0;
};
std::string text(const std::vector<Step>& steps) {
  static constexpr std::array names{"take", "give back", "leave", "total", "hand on", "reset"};
  std::string out;
  for (const Step& step : steps) out += std::string(names[step.kind]) + " " + std::to_string(step.which) + "; ";
  return out;
}

/// The rules of Credits with nothing but vectors of item numbers.
struct Model {
  int total = 0, min = 0;
  std::vector<int> holders, waiting;
  [[nodiscard]] int free() const { return total - int(holders.size()); }
  [[nodiscard]] int balance() const { return free() - int(waiting.size()); }
  /// The first item that has nothing; kItems: none.
  [[nodiscard]] int idle() const {
    int item = 0;
    while (std::count(holders.begin(), holders.end(), item) + std::count(waiting.begin(), waiting.end(), item) != 0)
      ++item;
    return item;
  }
  /// Gives a free credit to the item that came first; returns that item, or kItems.
  int serve() {
    if (free() <= 0 || waiting.empty()) return kItems;
    const int item = waiting.front();
    waiting.erase(waiting.begin());
    holders.push_back(item);
    return item;
  }
};

/// Credits and the model, step by step the same.
class Pair {
 public:
  explicit Pair(int total) : credits_(total) { model_.total = model_.min = total; }

  /// Steps that make sense now.
  [[nodiscard]] std::vector<Step> possible() const {
    std::vector<Step> steps;
    if (model_.idle() < kItems) steps.push_back({Step::kTake});
    if (!model_.holders.empty()) steps.push_back({Step::kGiveBack});
    for (int i = 0; i < int(model_.waiting.size()); ++i) steps.push_back({Step::kLeave, i});
    for (int total = 0; total <= kTotalMax; ++total)
      if (total != model_.total) steps.push_back({Step::kTotal, total});
    if (handing_on()) steps.push_back({Step::kHandOn});
    if (model_.min != model_.balance()) steps.push_back({Step::kResetMin});
    return steps;
  }
  /// "" or what differs after the step.
  std::string run(const Step& step) {
    raised_ = handing_on() || (step.kind == Step::kTotal && step.which > model_.total);
    switch (step.kind) {
      case Step::kTake: return take();
      case Step::kGiveBack: return give_back();
      case Step::kLeave: {
        Item& leaving = *item(model_.waiting[size_t(step.which)]);
        model_.waiting.erase(model_.waiting.begin() + step.which);
        credits_.leave(leaving);
        return "";
      }
      case Step::kTotal:
        model_.min += step.which - model_.total;
        model_.total = step.which;
        credits_.set_total(step.which);
        return "";
      case Step::kHandOn: return credits_.hand_on() == item(model_.serve()) ? "" : "hand_on";
      case Step::kResetMin:
        model_.min = model_.balance();
        credits_.reset_min();
        return "";
    }
    return "";
  }
  /// "" or the invariant that does not hold, or the number that differs.
  [[nodiscard]] std::string compare() {
    if (credits_.free() + credits_.held() != credits_.total()) return "free + held is not the total";
    if (!raised_ && credits_.free() > 0 && credits_.waiting() > 0) return "an item waits while a credit is free";
    if (!handing_on() && credits_.hand_on() != nullptr) return "hand_on to none";
    if (credits_.total() != model_.total) return "total";
    if (credits_.free() != model_.free()) return "free";
    if (credits_.waiting() != model_.waiting.size()) return "waiting";
    if (credits_.gauge().get() != model_.balance()) return "gauge";
    if (credits_.free_min() != model_.min) return "free_min";
    if (credits_.at_rest() != (model_.holders.empty() && model_.waiting.empty())) return "at_rest";
    if (credits_.first_waiting() != (model_.waiting.empty() ? nullptr : &items_[size_t(model_.waiting[0])]))
      return "first_waiting";
    for (int i = 0; i < kItems; ++i)
      if (items_[size_t(i)].linked() != (std::count(model_.waiting.begin(), model_.waiting.end(), i) != 0))
        return "linked";
    return "";
  }

 private:
  [[nodiscard]] Item* item(int number) { return number == kItems ? nullptr : &items_[size_t(number)]; }
  /// Credits are free and items wait: so it may be after a higher total only.
  [[nodiscard]] bool handing_on() const { return model_.free() > 0 && !model_.waiting.empty(); }
  std::string take() {
    const int taker = model_.idle();
    const bool got = model_.free() > 0 && model_.waiting.empty();
    (got ? model_.holders : model_.waiting).push_back(taker);
    model_.min = std::min(model_.min, model_.balance());
    return credits_.take(*item(taker)) == got ? "" : "take";
  }
  std::string give_back() {
    model_.holders.erase(model_.holders.begin());
    return credits_.give_back() == item(model_.serve()) ? "" : "give_back";
  }

  std::array<Item, kItems> items_;
  Credits<Item, Tag> credits_;
  Model model_;
  bool raised_ = false;  ///< credits are being handed on after a higher total
};

/// Runs `steps`, of which all but the last were run before, then goes on with each step that is possible.
void run_all(int total, std::vector<Step>& steps, unsigned depth, uint64_t& sequences) {
  Pair pair(total);
  std::string wrong;
  for (const Step& step : steps) wrong = pair.run(step);
  if (wrong.empty()) wrong = pair.compare();
  ASSERT_EQ(wrong, "") << "total " << total << ": " << text(steps);
  ++sequences;
  if (steps.size() == depth) return;
  for (const Step& step : pair.possible()) {
    steps.push_back(step);
    run_all(total, steps, depth, sequences);
    steps.pop_back();
    if (testing::Test::HasFatalFailure()) return;
  }
}

// Goal: after every sequence of operations, no credit is lost or doubled, and credits go to items in the order in which
// the items came. Nothing waits while a credit is free, but for the moment after a higher total. A lower total may
// leave a negative number free. Method: all sequences of up to eight operations with four items, from each total up to
// three, against plain vectors.
TEST(Credits, every_short_sequence_matches_a_model) {
  uint64_t sequences = 0;
  for (int total = 0; total <= kTotalMax; ++total) {
    std::vector<Step> steps;
    run_all(total, steps, 8, sequences);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(sequences, 1'000'000u);
}

struct Sized : Linked<Tag> {
  bool small = true;
};
struct SmallOverdraft {
  static int32_t of(const Sized& item) { return item.small ? 2 : 0; }
};

// Goal: some items go beyond the credits, but none before another that waits. The numbers shown are those of items that
// wait.
TEST(Credits, an_overdraft_is_for_some_and_passes_nobody) {
  Credits<Sized, Tag, SmallOverdraft> credits(1);
  std::array<Sized, 5> small;
  std::array<Sized, 2> large;
  for (Sized& item : large) item.small = false;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(credits.take(small[size_t(i)])) << i;
  EXPECT_FALSE(credits.take(small[3])) << "the overdraft is used up";
  EXPECT_FALSE(credits.take(large[0]));
  EXPECT_FALSE(credits.take(small[4]));
  EXPECT_EQ(-5, credits.gauge().get());
  EXPECT_EQ(-5, credits.free_min());
  EXPECT_EQ(&small[3], credits.give_back());
  EXPECT_EQ(nullptr, credits.give_back()) << "the first that waits has no overdraft";
  EXPECT_EQ(nullptr, credits.give_back());
  EXPECT_EQ(0, credits.free());
  EXPECT_EQ(&large[0], credits.give_back());
  EXPECT_EQ(&small[4], credits.give_back());
  EXPECT_EQ(nullptr, credits.give_back());
  EXPECT_TRUE(credits.at_rest());
  EXPECT_TRUE(credits.take(large[0]));
  EXPECT_FALSE(credits.take(large[1]));
  EXPECT_FALSE(credits.take(small[0])) << "would pass the large one";
  credits.leave(large[1]);
  EXPECT_EQ(&small[0], credits.hand_on());
}

TEST(CreditsDeath, misuse_is_found) {
  Credits<Item, Tag> credits(1);
  EXPECT_DEATH((void)credits.give_back(), "broken invariant") << "nobody holds one";
  EXPECT_DEATH(credits.set_total(-1), "broken invariant");
}

}  // namespace
}  // namespace ulnet
