// Stores tensors in a directory: each rank writes a safetensors file with parts of the tensors, and an index completes
// the save. Until the index of a save is written, readers see the previous save.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "workloads/api/tensor_part.h"
#include "workloads/data/tensor_file.h"

namespace dpbench {

// Throws UsageError if the directory cannot be made or written, or has an index of another program, so that a long run
// fails at its start. what: the flag that named the directory, for error messages.
void require_parts_directory(const std::string& directory, const std::string& what);

// Identifies a save. mark: 16 hexadecimal digits, unique to this save. files: number of its files.
struct Save {
  std::string mark;
  int files = 1;
};

// Writes file number `number` of a save. Its metadata holds the offsets of its parts, in the form that PyTorch's
// HuggingFaceStorageReader reads. Throws FileError if the file cannot be written.
void write_parts(const std::string& directory, const Save& save, int number, const std::vector<TensorPart>& parts);
// Completes a save: writes the index, and then deletes the files of all other saves, complete or not, which it
// recognises by their names. Call it when all files of this save have been written. Throws FileError if one of them is
// missing.
void commit_parts(const std::string& directory, const Save& save, const std::map<std::string, std::string>& metadata);
// Reads all parts, assembles the whole tensors and returns them with the metadata. what: the flag that named the
// directory, for error messages. Throws UsageError with the file's name if a file is missing, damaged or of another
// save, or if parts overlap or leave gaps in their tensor.
TensorFile load_parts(const std::string& directory, const std::string& what);

}  // namespace dpbench
