// Tests that the verifier refuses each kind of broken schedule, by the rule for this kind, without running the
// schedule.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "strategies/schedule/lower.h"
#include "strategies/schedule/verify.h"
#include "tests/support/contains.h"
#include "tests/unit/schedule/cases.h"
#include "tests/unit/schedule/oracle.h"

namespace dpbench::pipeline {
namespace {

Schedule made(const std::string& name, const Request& request) { return make_schedule(*find_family(name), request); }
Schedule lowered(const std::string& name, const Request& request) { return lower(made(name, request)); }

// Returns the names of the rules that a schedule breaks; empty if the schedule breaks none.
std::string broken_rules(const Schedule& schedule) {
  std::set<std::string> names;
  for (const Fault& fault : verify(schedule)) names.insert(name_of(fault.rule));
  std::string all;
  for (const auto& name : names) all += (all.empty() ? "" : " ") + name;
  return all;
}

size_t position(const Schedule& schedule, int rank, const std::string& text) {
  const auto& list = schedule.ranks[rank];
  const auto found = std::ranges::find(list, text, [](const Action& action) { return text_of(action); });
  EXPECT_NE(found, list.end()) << text;
  return static_cast<size_t>(found - list.begin());
}

void swap(Schedule& schedule, int rank, const std::string& one, const std::string& other) {
  std::swap(schedule.ranks[rank][position(schedule, rank, one)], schedule.ranks[rank][position(schedule, rank, other)]);
}

void erase(Schedule& schedule, int rank, const std::string& text) {
  auto& list = schedule.ranks[rank];
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(position(schedule, rank, text)));
}

// Moves an action in a rank's list to the given position.
void move(Schedule& schedule, int rank, const std::string& text, size_t to) {
  const Action action = schedule.ranks[rank][position(schedule, rank, text)];
  erase(schedule, rank, text);
  schedule.ranks[rank].insert(schedule.ranks[rank].begin() + static_cast<std::ptrdiff_t>(to), action);
}

Schedule from_lists(const std::vector<std::vector<std::string>>& lists, int microbatches) {
  Schedule schedule{.microbatches = microbatches, .rank_of = looped_placement(static_cast<int>(lists.size()), 1)};
  for (const auto& list : lists) {
    schedule.ranks.emplace_back();
    for (const auto& text : list) schedule.ranks.back().push_back(parse_action(text, "test"));
  }
  return schedule;
}

TEST(RefusesASchedule, WithABackwardPassBeforeItsForwardPass) {
  Schedule schedule = made("1f1b", {4, 1, 6});
  swap(schedule, 3, "3F2", "3B2");
  EXPECT_EQ(broken_rules(schedule), "work-order");
  EXPECT_TRUE(mentions_in_order(text_of(verify(schedule)[0]),
                                {"work-order: rank 3, action 4, 3B2 (stage 3, micro-batch 2): ", "3F2", "action 5"}));
}

TEST(RefusesASchedule, WithAWeightGradientBeforeItsInputGradient) {
  Schedule schedule = made("zb-h1", {4, 1, 6});
  swap(schedule, 0, "0I2", "0W2");
  EXPECT_EQ(broken_rules(schedule), "work-order");
}

TEST(RefusesASchedule, WithStagesOfOneRankInTheWrongOrder) {
  Schedule schedule = made("zbv", {2, 2, 4});  // rank 1 has stages 1 and 2
  swap(schedule, 1, "1F0", "2F0");
  EXPECT_EQ(broken_rules(schedule), "work-order");
}

TEST(RefusesASchedule, ThatDropsAWeightGradient) {
  Schedule schedule = made("zb-h2", {4, 1, 8});
  erase(schedule, 2, "2W5");
  ASSERT_EQ(broken_rules(schedule), "missing-work");
  EXPECT_TRUE(mentions(text_of(verify(schedule)[0]), {"missing-work: rank 2, 2W5 (stage 2, micro-batch 5): "}));
}

TEST(RefusesASchedule, ThatRunsAForwardPassTwice) {
  Schedule schedule = made("gpipe", {4, 1, 6});
  schedule.ranks[1].insert(schedule.ranks[1].begin(), schedule.ranks[1].front());
  EXPECT_EQ(broken_rules(schedule), "repeated-work");
}

TEST(RefusesASchedule, WithAFullBackwardPassBesideAWeightGradient) {
  Schedule schedule = made("1f1b", {4, 1, 6});
  schedule.ranks[1].push_back({.kind = Kind::weight_gradient, .stage = 1, .microbatch = 2});
  EXPECT_EQ(broken_rules(schedule), "repeated-work");
}

TEST(RefusesASchedule, WithAComputationOfAStageThatLiesOnAnotherRank) {
  Schedule schedule = made("1f1b", {4, 1, 6});
  schedule.ranks[1][position(schedule, 1, "1B3")].stage = 2;
  ASSERT_EQ(broken_rules(schedule), "placement");
  EXPECT_TRUE(mentions_in_order(text_of(verify(schedule)[0]), {"rank 1", "2B3 (stage 2, micro-batch 3): ", "rank 2"}));
}

TEST(RefusesASchedule, WithAComputationOfTheWrongStageOfTheSameRank) {
  Schedule schedule = made("interleaved", {2, 2, 4});
  schedule.ranks[1][position(schedule, 1, "1B3")].stage = 3;
  EXPECT_EQ(broken_rules(schedule), "missing-work repeated-work");
}

TEST(RefusesASchedule, WithMoreStagesOnOneRankThanOnAnother) {
  Schedule schedule = from_lists({{"0F0", "1F0", "1B0", "0B0"}, {"2F0", "2B0"}}, 1);
  schedule.rank_of = {0, 0, 1};
  EXPECT_EQ(broken_rules(schedule), "placement");
}

TEST(RefusesASchedule, WithAMicroBatchThatDoesNotExist) {
  Schedule schedule = made("1f1b", {4, 1, 6});
  schedule.ranks[0][0].microbatch = 6;
  EXPECT_EQ(broken_rules(schedule), "unknown-work");
}

TEST(RefusesASchedule, ThatSendsAMicroBatchThroughTheStagesOfTheOtherDirection) {
  Schedule schedule = made("dualpipe", {4, 1, 8});
  schedule.ranks[0][position(schedule, 0, "0F3")].microbatch = 4;
  EXPECT_EQ(broken_rules(schedule), "unknown-work");
}

TEST(RefusesASchedule, ThatAccumulatesWeightGradientsOutOfOrder) {
  Schedule schedule = made("gpipe", {2, 1, 4});
  for (auto& list : schedule.ranks) std::reverse(list.begin() + 4, list.end());
  EXPECT_EQ(broken_rules(schedule), "gradient-order");
}

// Biases, norms and embeddings add their gradients in I, not in W.
TEST(RefusesASchedule, WithInputGradientsOutOfOrder) {
  const Schedule schedule = from_lists({{"0F0", "0F1", "0F2", "0I2", "0I1", "0I0", "0W0", "0W1", "0W2"}}, 3);
  ASSERT_EQ(broken_rules(schedule), "gradient-order");
  EXPECT_TRUE(mentions_in_order(text_of(verify(schedule)[0]), {"rank 0, action 4, 0I1 ", "0I2"}));
}

// BatchNorm's running statistics depend on the order of forward passes.
TEST(RefusesASchedule, WithForwardPassesOutOfOrder) {
  EXPECT_EQ(broken_rules(from_lists({{"0F1", "0F0", "0B0", "0B1"}}, 2)), "gradient-order");
}

TEST(RefusesASchedule, ThatKeepsMoreActivationsThanDeclared) {
  for (const Family& family : families())
    for (int rank = 0; rank < 4; ++rank) {
      Schedule schedule = family.make({4, family.least_chunks, 8});
      --schedule.live_limits[rank];
      EXPECT_EQ(broken_rules(schedule), "live-activations") << family.name << ", rank " << rank;
    }
}

TEST(RefusesASchedule, ThatNeedsMoreReceiveBuffersThanItDeclares) {
  int tested = 0;
  for (const Family& family : families()) {
    Schedule schedule = lower(family.make({4, family.least_chunks, 8}));
    if (schedule.receive_slots < 2) continue;
    --schedule.receive_slots;
    EXPECT_EQ(broken_rules(schedule), "receive-slot") << family.name;
    ++tested;
  }
  EXPECT_GE(tested, 3);
}

TEST(RefusesASchedule, ThatDropsASendOrAReceive) {
  for (const auto& [rank, text] :
       std::vector<std::pair<int, std::string>>{{1, "1SEND_F2"}, {2, "2RECV_F2"}, {2, "2SEND_B1"}, {1, "1RECV_B1"}}) {
    Schedule schedule = lowered("1f1b", {4, 1, 6});
    erase(schedule, rank, text);
    EXPECT_EQ(broken_rules(schedule), "unpaired-transfer") << text;
  }
}

TEST(RefusesASchedule, ThatOmitsBothTheSendAndTheReceiveOfATransfer) {
  Schedule schedule = lowered("1f1b", {4, 1, 6});
  erase(schedule, 1, "1SEND_F2");
  erase(schedule, 2, "2RECV_F2");
  ASSERT_EQ(broken_rules(schedule), "unpaired-transfer");
  EXPECT_TRUE(mentions(text_of(verify(schedule)[0]), {"rank 1", "1SEND_F2", "neither"}));
}

TEST(RefusesASchedule, ThatSendsFromTheLastStage) {
  Schedule schedule = lowered("1f1b", {4, 1, 6});
  schedule.ranks[3].push_back({.kind = Kind::send_activation, .stage = 3, .microbatch = 0});
  EXPECT_EQ(broken_rules(schedule), "unpaired-transfer");
}

TEST(RefusesASchedule, ThatSendsBetweenStagesOfOneRank) {
  Schedule schedule = lowered("zbv", {2, 2, 4});
  schedule.ranks[1].push_back({.kind = Kind::send_activation, .stage = 1, .microbatch = 0});
  ASSERT_EQ(broken_rules(schedule), "unpaired-transfer");
  EXPECT_TRUE(mentions_in_order(text_of(verify(schedule)[0]), {"1SEND_F0", "both stages", "rank 1"}));
}

TEST(RefusesASchedule, ThatSendsBeforeTheComputationOrReceivesAfterIt) {
  Schedule early = lowered("1f1b", {4, 1, 6}), late = early;
  swap(early, 0, "0F1", "0SEND_F1");
  EXPECT_EQ(broken_rules(early), "transfer-order");
  move(late, 1, "1RECV_F1", position(late, 1, "1F1"));
  EXPECT_EQ(broken_rules(late), "transfer-order");
}

// Returns a schedule in which rank 1's receives of activations are at the front of its list, so that each receive comes
// before its consumer in any order of the receives.
Schedule all_received_first() {
  Schedule schedule = lowered("gpipe", {2, 1, 4});
  schedule.receive_slots = 0;
  for (int i = 0; i < 4; ++i) move(schedule, 1, "1RECV_F" + std::to_string(i), i);
  EXPECT_EQ(broken_rules(schedule), "");
  return schedule;
}

TEST(RefusesASchedule, WithSwappedReceives) {
  Schedule schedule = all_received_first();
  swap(schedule, 1, "1RECV_F1", "1RECV_F2");
  ASSERT_EQ(broken_rules(schedule), "channel-order");
  EXPECT_TRUE(mentions_in_order(text_of(verify(schedule)[0]),
                                {"channel-order: rank 1, action 1, 1RECV_F2", "stage 0", "stage 1", "0SEND_F1"}));
}

TEST(RefusesASchedule, ThatReceivesInReverseOrderOrExchangesSendersAndReceivers) {
  Schedule reversed = all_received_first();
  std::reverse(reversed.ranks[1].begin(), reversed.ranks[1].begin() + 4);
  EXPECT_EQ(broken_rules(reversed), "channel-order");
  // sends and receives are exchanged: rank 1 sends activations, and rank 0 receives them
  Schedule backwards = all_received_first();
  for (int i = 0; i < 4; ++i) {
    const std::string number = std::to_string(i);
    std::swap(backwards.ranks[0][position(backwards, 0, "0SEND_F" + number)],
              backwards.ranks[1][position(backwards, 1, "1RECV_F" + number)]);
  }
  EXPECT_EQ(broken_rules(backwards), "placement");
}

TEST(RefusesASchedule, ThatDeadlocks) {
  const Schedule schedule = from_lists({{"0F0", "0B0", "0F1", "0B1"}, {"1F0", "1F1", "1B0", "1B1"}}, 2);
  ASSERT_EQ(broken_rules(schedule), "deadlock");
  EXPECT_TRUE(mentions_in_order(text_of(verify(schedule)[0]),
                                {"deadlock: rank 0, action 1, 0B0", "rank 1;", "rank 1", "action 1, 1F1", "rank 0"}));
}

// Both ranks send before they receive, as in 1F1B without paired transfers. The schedule completes if sends are
// buffered, and deadlocks if not.
TEST(RefusesASchedule, ThatDeadlocksWithoutBuffers) {
  const Schedule schedule = from_lists({{"0F0", "0SEND_F0", "0F1", "0SEND_F1", "0RECV_B0", "0B0", "0F2", "0SEND_F2",
                                         "0RECV_B1", "0B1", "0RECV_B2", "0B2"},
                                        {"1RECV_F0", "1F0", "1B0", "1SEND_B0", "1RECV_F1", "1F1", "1B1", "1SEND_B1",
                                         "1RECV_F2", "1F2", "1B2", "1SEND_B2"}},
                                       3);
  ASSERT_EQ(broken_rules(schedule), "deadlock-unbuffered");
  EXPECT_TRUE(mentions_in_order(text_of(verify(schedule)[0]), {"deadlock-unbuffered: rank 0, action 3, 0SEND_F1",
                                                               "rank 1;", "rank 1", "action 3, 1SEND_B0", "rank 0"}));
}

Schedule tied() {
  Schedule schedule = made("1f1b", {4, 1, 6});
  schedule.ties = {{0, 3}};
  return lower(schedule);
}

TEST(RefusesASchedule, ThatReducesTiedParametersTooEarlyOrNeverOrTwice) {
  ASSERT_EQ(broken_rules(tied()), "");
  Schedule early = tied(), never = tied(), twice = tied();
  swap(early, 0, "0REDUCE_TIED", "0B5");
  EXPECT_EQ(broken_rules(early), "tied-reduction");
  erase(never, 3, "3REDUCE_TIED");
  EXPECT_EQ(broken_rules(never), "tied-reduction");
  twice.ranks[3].push_back({.kind = Kind::reduce_tied, .stage = 3});
  EXPECT_EQ(broken_rules(twice), "tied-reduction");
}

TEST(RefusesASchedule, ThatReducesParametersThatAreNotTied) {
  Schedule schedule = lowered("1f1b", {4, 1, 6});
  schedule.ranks[2].push_back({.kind = Kind::reduce_tied, .stage = 2});
  EXPECT_EQ(broken_rules(schedule), "tied-reduction");
  EXPECT_EQ(broken_rules(from_lists({{"0F0", "0B0", "0REDUCE_TIED"}, {"1F0", "1B0"}}, 1)), "tied-reduction");
}

TEST(RefusesASchedule, ThatReducesGradientsBeforeTheLastIsComputed) {
  Schedule schedule = lowered("zb-h1", {4, 1, 6});
  schedule.ranks[2].push_back({.kind = Kind::reduce_gradients, .stage = 2});
  ASSERT_EQ(broken_rules(schedule), "");
  swap(schedule, 2, "2REDUCE_GRAD", "2W5");
  EXPECT_EQ(broken_rules(schedule), "gradient-reduction");
  EXPECT_EQ(broken_rules(from_lists({{"0F0", "0REDUCE_GRAD", "0B0"}, {"1F0", "1B0"}}, 1)), "gradient-reduction");
}

// Each mutant is a schedule with one action dropped, doubled or moved to the next stage. Every mutant breaks a rule,
// and the kind of mutation determines which rules are possible.
class EveryMutatedSchedule : public testing::TestWithParam<Family> {};

bool is_transfer(Kind kind) { return is_send(kind) || is_receive(kind); }

TEST_P(EveryMutatedSchedule, IsRefusedByARuleForItsKindOfMutation) {
  const Family& family = GetParam();
  int mutants = 0;
  for (const Request& request : {Request{2, family.least_chunks, 5}, Request{4, family.least_chunks, 8}}) {
    if (!family.refusal(request).empty()) continue;
    const Schedule right = lower(make_schedule(family, request));
    for (int rank = 0; rank < right.world(); ++rank)
      for (size_t i = 0; i < right.ranks[rank].size(); ++i) {
        const Action action = right.ranks[rank][i];
        const auto at = static_cast<std::ptrdiff_t>(i);
        Schedule dropped = right, doubled = right, moved = right;
        dropped.ranks[rank].erase(dropped.ranks[rank].begin() + at);
        doubled.ranks[rank].insert(doubled.ranks[rank].begin() + at, action);
        moved.ranks[rank][i].stage = (action.stage + 1) % right.stages();
        const std::string label = family.name + ", rank " + std::to_string(rank) + ", " + text_of(action);
        const bool transfer = is_transfer(action.kind), tie = action.kind == Kind::reduce_tied;
        ASSERT_EQ(broken_rules(dropped), transfer ? "unpaired-transfer"
                                         : tie    ? "tied-reduction"
                                                  : "missing-work")
            << label;
        ASSERT_EQ(broken_rules(doubled), transfer ? "unpaired-transfer"
                                         : tie    ? "tied-reduction"
                                                  : "repeated-work")
            << label;
        const std::set<std::string> for_stages = {"placement",    "unknown-work",      "missing-work repeated-work",
                                                  "missing-work", "unpaired-transfer", "tied-reduction"};
        ASSERT_TRUE(for_stages.contains(broken_rules(moved))) << label << ": '" << broken_rules(moved) << "'";
        mutants += 3;
      }
  }
  EXPECT_GT(mutants, 100);
  RecordProperty("mutants", mutants);
}

// Swaps random pairs of neighbouring or distant actions. The verifier must accept only schedules that a symbolic
// execution finds correct. It may refuse a correct schedule only for exceeding a declared limit.
TEST_P(EveryMutatedSchedule, IsAcceptedOnlyIfItsSymbolicExecutionIsCorrect) {
  const Family& family = GetParam();
  std::mt19937 random(7);
  const std::set<std::string> declared = {"live-activations", "receive-slot"};
  int accepted = 0, refused = 0;
  for (const Request& request : {Request{2, family.least_chunks, 4}, Request{4, family.least_chunks, 8}}) {
    Schedule compute = make_schedule(family, request);
    // ties are removed, because the symbolic execution does not model the reduction of tied gradients
    compute.ties.clear();
    const Schedule right = lower(compute);
    ASSERT_TRUE(SymbolicRun(right, true).is_right() && SymbolicRun(right, false).is_right());
    for (int i = 0; i < 600; ++i) {
      Schedule mutant = right;
      auto& list = mutant.ranks[random() % mutant.ranks.size()];
      const size_t first = random() % list.size(), distance = i % 2 == 0 ? 1 : 1 + random() % 6;
      std::swap(list[first], list[std::min(first + distance, list.size() - 1)]);
      if (list != right.ranks[&list - mutant.ranks.data()] &&
          std::ranges::any_of(list, [](const Action& action) { return action.overlaps_next; }))
        for (auto& one : mutant.ranks)
          for (Action& action : one) action.overlaps_next = false;
      const std::string rules = broken_rules(mutant);
      const bool runs = SymbolicRun(mutant, true).is_right() && SymbolicRun(mutant, false).is_right();
      if (rules.empty()) {
        ++accepted;
        ASSERT_TRUE(runs) << family.name << ", mutant " << i;
      } else {
        ++refused;
        ASSERT_TRUE(!runs || declared.contains(rules)) << family.name << ", mutant " << i << ": " << rules;
      }
    }
  }
  EXPECT_GT(accepted, 20);
  EXPECT_GT(refused, 100);
}

INSTANTIATE_TEST_SUITE_P(Schedules, EveryMutatedSchedule, testing::ValuesIn(families()), [](const auto& given) {
  std::string name = given.param.name;
  std::erase(name, '-');
  return name;
});

}  // namespace
}  // namespace dpbench::pipeline
