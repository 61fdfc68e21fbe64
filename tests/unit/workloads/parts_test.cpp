// Tests checkpoints stored as a directory with a file of each rank: written tensors are read back, and every kind of
// incomplete or foreign directory is refused.
#include <ATen/ATen.h>

#include "tests/support/idx_files.h"
#include "workloads/data/safetensors_parts.h"

namespace dpbench {
namespace {

const at::Tensor matrix = at::arange(12, at::kDouble).view({3, 4}), number = at::scalar_tensor(7);
const std::map<std::string, std::string> texts = {{"epoch", "2"}};
const std::string mark = "0123456789abcdef", other_mark = "fedcba9876543210";

TensorPart block(const std::string& name, const at::Tensor& whole, std::vector<int64_t> first,
                 const std::vector<int64_t>& sizes) {
  at::Tensor values = whole;
  for (size_t i = 0; i < first.size(); ++i) values = values.narrow(static_cast<int64_t>(i), first[i], sizes[i]);
  return {name, values, std::move(first), whole.sizes().vec()};
}

// Returns the parts of tensors that each of two ranks stores in a checkpoint.
std::vector<std::vector<TensorPart>> two_parts() {
  return {
      {block("m", matrix, {0, 0}, {3, 1}), whole_part("n", number), whole_part("none", at::empty({0, 2}))},
      {block("m", matrix, {0, 1}, {2, 3}), block("m2", matrix, {0, 0}, {3, 4}), whole_part("none2", at::empty({0}))}};
}

std::string saved(const Folder& folder, const std::vector<std::vector<TensorPart>>& parts,
                  const std::string& of_save = mark) {
  const Save save{of_save, static_cast<int>(parts.size())};
  for (int number = 0; number < save.files; ++number)
    write_parts(folder.text(), save, number, parts[static_cast<size_t>(number)]);
  commit_parts(folder.text(), save, texts);
  return folder.text();
}

std::vector<std::vector<TensorPart>> complete() {
  auto parts = two_parts();
  parts.push_back({block("m", matrix, {2, 1}, {1, 3})});
  return parts;
}

std::string refused(const Folder& folder) {
  return refusal([&] { load_parts(folder.text(), "--resume"); });
}

TEST(CheckpointParts, OfSeveralFilesAreReadAsWholeTensors) {
  const Folder folder;
  const TensorFile loaded = load_parts(saved(folder, complete()), "--resume");
  EXPECT_TRUE(loaded.find("m").equal(matrix));
  EXPECT_TRUE(loaded.find("m2").equal(matrix));
  EXPECT_TRUE(loaded.find("n").equal(number));
  EXPECT_EQ(loaded.find("none").sizes(), (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(loaded.metadata, texts);
}

TEST(CheckpointParts, StoreTheirOffsetsInTheFormatOfPyTorch) {
  const Folder folder;
  saved(folder, complete());
  const TensorFile last = load_tensors(folder / (mark + "-00003-of-00003.safetensors"), "--resume");
  EXPECT_EQ(last.metadata.at("DCP_SHARDING_INFO"), R"({"m":{"saved_offsets":[2,1]}})");
}

TEST(CheckpointParts, OfANewSaveReplaceTheOldOnesOnlyOnceItsIndexIsWritten) {
  const Folder folder;
  saved(folder, complete());
  const Save next{other_mark, 2};
  write_parts(folder.text(), next, 0, {whole_part("m", matrix + 1)});
  EXPECT_TRUE(load_parts(folder.text(), "--resume").find("m").equal(matrix)) << "the new save has no index";
  write_parts(folder.text(), next, 1, {});
  std::ofstream(folder / "0f0f0f0f0f0f0f0f-00001-of-00002.safetensors") << "of a save that did not end";
  std::ofstream(folder / "0f0f0f0f0f0f0f0f-00002-of-00002.safetensors.draft-aB3dE6") << "written by a killed rank";
  commit_parts(folder.text(), next, texts);
  EXPECT_TRUE(load_parts(folder.text(), "--resume").find("m").equal(matrix + 1));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.text()), {}), 3) << "two files and the index";
  for (const char* foreign : {"model.safetensors", "model-00001-of-00002.safetensors", "notes.txt"})
    std::ofstream(folder / foreign) << "kept";
  commit_parts(folder.text(), next, texts);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.text()), {}), 6) << "files of others are kept";
}

TEST(CheckpointParts, GetNoIndexBeforeEveryRankHasWrittenItsFile) {
  const Folder folder;
  const Save save{mark, 2};
  write_parts(folder.text(), save, 0, {});
  EXPECT_THROW(commit_parts(folder.text(), save, texts), FileError);
  expect_contains(refused(folder), {"--resume", "no index.json", "first save"});
}

TEST(CheckpointParts, AreRefusedNamingTheFileIfOneIsMissingOrDamaged) {
  const std::string second = mark + "-00002-of-00003.safetensors";
  {
    const Folder folder;
    saved(folder, complete());
    fs::remove(folder / second);
    expect_contains(refused(folder), {"lacks", second});
  }
  {
    const Folder folder;
    saved(folder, complete());
    fs::resize_file(folder / second, fs::file_size(folder / second) - 1);
    expect_contains(refused(folder), {second, "truncated"});
  }
  {
    const Folder folder, other;
    saved(folder, complete());
    saved(other, complete(), other_mark);
    fs::copy_file(other / (other_mark + "-00002-of-00003.safetensors"), folder / second,
                  fs::copy_options::overwrite_existing);
    expect_contains(refused(folder), {second, "another save"});
  }
  const Folder folder;
  saved(folder, two_parts());
  expect_contains(refused(folder), {"9 of the 12", "'m'"});
}

TEST(CheckpointParts, AreRefusedNamingTheTensorIfItsPartsHaveGapsOrContradictEachOther) {
  const auto with = [](const TensorPart& more) {
    const Folder folder;
    auto parts = complete();
    parts[2].push_back(more);
    parts[2].erase(parts[2].begin());
    saved(folder, parts);
    return refused(folder);
  };
  const at::Tensor values = at::zeros({1, 3}, at::kDouble);
  expect_contains(with({"m", values, {1, 1}, {3, 4}}), {"'m'", "overlaps"});
  expect_contains(with({"m", values, {2, 2}, {3, 4}}), {"'m'", "outside"});
  expect_contains(with({"m", values, {-1, 1}, {3, 4}}), {"'m'", "outside"});
  expect_contains(with({"m", values, {2}, {3, 4}}), {"'m'", "outside"});
  const int64_t huge = int64_t{1} << 40;
  expect_contains(with({"huge", values, {0, 0}, {huge, huge}}), {"'huge'", "range"});
  expect_contains(with({"m", values, {2, 1}, {3, 5}}), {"'m'", "shape"});
  expect_contains(with({"m", values.to(at::kFloat), {2, 1}, {3, 4}}), {"'m'", "dtype"});
}

std::string index_of(const std::string& of_save) {
  return R"({"format":"dpbench parts 1","save":")" + of_save + R"(","files":1,"metadata":{}})";
}

TEST(CheckpointParts, OfADirectoryWithADamagedOrForeignIndexAreRefused) {
  for (const auto& [index, due] :
       {std::pair<std::string, std::string>{"", "damaged index.json"},
        {"[]", "damaged index.json"},
        {"{}", "damaged index.json"},
        {R"({"format":"model","save":"a","files":1,"metadata":{}})", "this version"},
        {R"({"format":"dpbench parts 1","save":"../a","files":1,"metadata":{}})", "invalid save"},
        {R"({"format":"dpbench parts 1","save":"0123456789abcdef","files":0,"metadata":{}})", "0 files"},
        {R"({"format":"dpbench parts 1","save":"0123456789abcdef","files":"1","metadata":{}})", "damaged"}}) {
    const Folder folder;
    std::ofstream(folder / "index.json") << index;
    expect_contains(refused(folder), {due});
  }
  const Folder folder;
  save_tensors(folder / (mark + "-00001-of-00001.safetensors"),
               {.tensors = {{"m", matrix}}, .metadata = {{"save", mark}}});
  std::ofstream(folder / "index.json") << index_of(mark);
  expect_contains(refused(folder), {mark + "-00001-of-00001.safetensors", "places"});
}

TEST(CheckpointParts, AreNotWrittenOverTheIndexOfAnotherProgram) {
  const Folder folder;
  require_parts_directory((folder / "new" / "deep").string(), "--checkpoint");
  EXPECT_TRUE(fs::is_directory(folder / "new" / "deep"));
  saved(folder, complete());
  require_parts_directory(folder.text(), "--checkpoint");
  std::ofstream(folder / "index.json") << R"({"weight_map":{}})";
  const auto refused = refusal([&] { require_parts_directory(folder.text(), "--checkpoint"); });
  expect_contains(refused, {"--checkpoint", "index.json", "another program"});
}

}  // namespace
}  // namespace dpbench
