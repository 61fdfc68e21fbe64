// The CPU reduction kernels of the shm backend: conversion of 16-bit floats, rounding, NaN, and equal bits from every
// instruction set.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "strategies/api/named_tensors.h"
#include "strategies/comm/shm/kernels.h"

namespace dpbench::shm {

void fill_base(ReduceTable& table);
void fill_avx2(ReduceTable& table);
void fill_avx512(ReduceTable& table);

namespace {

using Fill = void (*)(ReduceTable&);

struct Set {
  const char* name;
  Fill fill;
};

std::vector<Set> sets_of_this_cpu() {
  std::vector<Set> sets{{"base", fill_base}};
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) sets.push_back({"avx2", fill_avx2});
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) sets.push_back({"avx512", fill_avx512});
#endif
  return sets;
}

struct Type {
  Element element;
  at::ScalarType dtype;
};
constexpr Type kTypes[] = {{Element::f32, at::kFloat}, {Element::f64, at::kDouble}, {Element::bf16, at::kBFloat16},
                           {Element::f16, at::kHalf},  {Element::i32, at::kInt},    {Element::i64, at::kLong},
                           {Element::i8, at::kChar},   {Element::u8, at::kByte}};

at::Tensor reduce(const Set& set, Reduction reduction, Element element, const std::vector<at::Tensor>& inputs) {
  ReduceTable table{};
  set.fill(table);
  std::vector<const void*> sources;
  for (const auto& input : inputs) sources.push_back(input.data_ptr());
  auto output = at::empty_like(inputs[0]);
  void* target = output.data_ptr();
  const Reduce kernel = table[int(reduction)][int(element)];
  kernel(sources.data(), static_cast<int>(sources.size()), &target, 1, output.numel());
  return output;
}

// Returns a tensor of a 16-bit type that holds each of the 65,536 bit patterns once.
at::Tensor all_patterns(at::ScalarType dtype) { return at::arange(-32768, 32768, at::kShort).view(dtype); }

TEST(ReductionKernels, ReturnASingle16BitTensorWithUnchangedBitsAsItsSum) {
  for (const auto& set : sets_of_this_cpu())
    for (const auto dtype : {at::kBFloat16, at::kHalf}) {
      const auto patterns = all_patterns(dtype), number = patterns.isnan().logical_not();
      const auto passed = reduce(set, Reduction::sum, dtype == at::kHalf ? Element::f16 : Element::bf16, {patterns});
      EXPECT_TRUE(same_bits(passed.masked_select(number), patterns.masked_select(number))) << set.name << " " << dtype;
      EXPECT_TRUE(at::equal(passed.isnan(), patterns.isnan())) << set.name << " " << dtype;
    }
}

TEST(ReductionKernels, RoundSumsOf16BitFloatsOnceLikeTorch) {
  const auto generator = at::detail::createCPUGenerator(7);
  for (const auto& set : sets_of_this_cpu())
    for (const auto [element, dtype] : {Type{Element::bf16, at::kBFloat16}, Type{Element::f16, at::kHalf}}) {
      const auto a = all_patterns(dtype), b = a.index({at::randperm(65536, generator)}), c = b.flip(0);
      const auto want = (a.to(at::kFloat) + b.to(at::kFloat) + c.to(at::kFloat)).to(dtype);
      const auto got = reduce(set, Reduction::sum, element, {a, b, c});
      const auto number = want.isnan().logical_not();
      EXPECT_TRUE(at::equal(got.isnan(), want.isnan())) << set.name << " " << dtype;
      EXPECT_TRUE(same_bits(got.masked_select(number), want.masked_select(number))) << set.name << " " << dtype;
    }
}

at::Tensor random_of(at::ScalarType dtype, int64_t count, const at::Generator& generator) {
  if (at::isIntegralType(dtype, false)) return at::randint(-100, 100, {count}, generator, at::kLong).to(dtype);
  return at::randn({count}, generator, at::kDouble).to(dtype);
}

TEST(ReductionKernels, GiveTheSameBitsWithEveryInstructionSet) {
  const auto generator = at::detail::createCPUGenerator(11);
  const auto sets = sets_of_this_cpu();
  for (const auto [element, dtype] : kTypes)
    for (const auto reduction : {Reduction::sum, Reduction::avg, Reduction::product, Reduction::min, Reduction::max})
      for (const int64_t count : {0, 1, 17, 1023, 1024, 5003}) {
        if (!find_reduce(reduction, element)) continue;
        std::vector<at::Tensor> inputs;
        for (int i = 0; i < 5; ++i) inputs.push_back(random_of(dtype, count, generator));
        const auto first = reduce(sets[0], reduction, element, inputs);
        for (const auto& set : sets)
          EXPECT_TRUE(same_bits(reduce(set, reduction, element, inputs), first))
              << set.name << " " << dtype << " " << count;
      }
}

TEST(ReductionKernels, ForAveragesExistForFloatingPointTypesOnly) {
  for (const auto [element, dtype] : kTypes)
    EXPECT_EQ(find_reduce(Reduction::avg, element) != nullptr, at::isFloatingType(dtype)) << dtype;
}

TEST(ReductionKernels, PropagateNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto a = at::tensor({1.0f, nan, 3.0f}), b = at::tensor({2.0f, 5.0f, nan});
  for (const auto& set : sets_of_this_cpu())
    for (const auto reduction : {Reduction::sum, Reduction::min, Reduction::max}) {
      const auto got = reduce(set, reduction, Element::f32, {a, b});
      EXPECT_FALSE(got[0].isnan().item<bool>());
      EXPECT_TRUE(got[1].isnan().item<bool>() && got[2].isnan().item<bool>()) << set.name;
    }
}

TEST(ReductionKernels, WriteTheSumToEveryTargetEvenIfOneOfThemIsAlsoASource) {
  auto a = at::arange(3000, at::kFloat), b = a * 2, other = at::zeros(3000);
  const auto want = a + b;
  const void* sources[] = {a.data_ptr(), b.data_ptr()};
  void* targets[] = {b.data_ptr(), other.data_ptr()};
  find_reduce(Reduction::sum, Element::f32)(sources, 2, targets, 2, 3000);
  EXPECT_TRUE(at::equal(b, want) && at::equal(other, want));
}

}  // namespace
}  // namespace dpbench::shm
