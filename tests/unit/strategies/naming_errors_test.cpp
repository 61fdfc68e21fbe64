// Tests that an out-of-memory error stays recognisable when a place (such as a layer of the model) is added to its
// message.
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "harness/conform/evidence/exception_text.h"
#include "strategies/parts/naming_errors.h"
#include "tests/support/contains.h"

namespace dpbench {
namespace {

// Calls `fail` with "the place" added to its error. Checks the message, and whether the error counts as out of memory.
template <class Fail>
void expect_named(const Fail& fail, const std::vector<std::string>& parts, bool memory) {
  try {
    naming_errors([] { return std::string("the place"); }, fail);
    ADD_FAILURE() << "no error";
  } catch (const std::exception& error) {
    expect_contains(message_of(error), parts);
    EXPECT_EQ(message_of(error).find("the place: "), 0u) << message_of(error);
    EXPECT_EQ(out_of_memory(error), memory) << message_of(error);
  }
}

TEST(PlaceAddedToAnErrorMessage, KeepsOutOfMemoryErrorsRecognisable) {
  expect_named([] { throw std::bad_alloc(); }, {"host memory"}, true);
  expect_named([] { throw c10::OutOfMemoryError("no more"); }, {"no more"}, true);
  expect_named([] { at::empty({int64_t{1} << 60}, at::kByte); }, {"can't allocate memory"}, true);
  expect_named([] { TORCH_CHECK(false, "other"); }, {"other"}, false);
  expect_named([] { throw std::runtime_error("other"); }, {"other"}, false);
}

TEST(PlaceAddedToAnErrorMessage, IsLeftOutInUsageErrors) {
  try {
    naming_errors([] { return std::string("the place"); }, [] { throw UsageError("wrong flag"); });
    ADD_FAILURE() << "no error";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "wrong flag");
  }
}

}  // namespace
}  // namespace dpbench
