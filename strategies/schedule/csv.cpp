#include "strategies/schedule/csv.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <system_error>

#include "workloads/base/error.h"

namespace dpbench::pipeline {
namespace {

constexpr std::string_view overlap = "OVERLAP_F_B";

// Removes spaces, carriage returns and quotes around a cell.
std::string_view trimmed(std::string_view cell) {
  constexpr std::string_view around = " \t\r\"'";
  const size_t first = cell.find_first_not_of(around);
  return first == std::string_view::npos ? "" : cell.substr(first, cell.find_last_not_of(around) - first + 1);
}

bool is_backward(Kind kind) { return kind == Kind::full_backward || kind == Kind::input_gradient; }

// Parses two overlapping computations, written as "(0F3;3B1)OVERLAP_F_B".
void append_overlapped(std::string_view cell, const std::string& where, std::vector<Action>& list) {
  const size_t middle = cell.find(';'), end = cell.find(')');
  if (middle == std::string_view::npos || end == std::string_view::npos || middle > end ||
      trimmed(cell.substr(end + 1)) != overlap)
    throw UsageError(where + ": '" + std::string(cell) + "' is no pair; write (0F3;3B1)OVERLAP_F_B");
  Action forward = parse_action(trimmed(cell.substr(1, middle - 1)), where);
  const Action backward = parse_action(trimmed(cell.substr(middle + 1, end - middle - 1)), where);
  if (forward.kind != Kind::forward || !is_backward(backward.kind))
    throw UsageError(where + ": '" + std::string(cell) + "' is not a forward pass and a backward pass, in this order");
  forward.overlaps_next = true;
  list.push_back(forward);
  list.push_back(backward);
}

std::vector<Action> read_line(const std::string& line, const std::string& where) {
  std::vector<Action> list;
  std::istringstream cells(line);
  int column = 0;
  for (std::string raw; std::getline(cells, raw, ',');) {
    const std::string at = where + ", cell " + std::to_string(++column);
    const std::string_view cell = trimmed(raw);
    if (cell.empty() || cell == "None") continue;
    if (cell.starts_with('('))
      append_overlapped(cell, at, list);
    else
      list.push_back(parse_action(cell, at));
  }
  return list;
}

// A CSV schedule does not say on which rank a stage lies. Returns for each stage the rank that has most of its actions;
// for a stage without actions, the rank stage % ranks, as in interleaved schedules.
std::vector<int> placement_of(const std::vector<std::vector<Action>>& ranks, int stages) {
  std::vector<std::map<int, int>> votes(stages);
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    for (const Action& action : ranks[rank]) ++votes[action.stage][static_cast<int>(rank)];
  std::vector<int> rank_of;
  for (int stage = 0; stage < stages; ++stage) {
    const auto most = std::ranges::max_element(votes[stage], {}, [](const auto& vote) { return vote.second; });
    rank_of.push_back(most == votes[stage].end() ? stage % static_cast<int>(ranks.size()) : most->first);
  }
  return rank_of;
}

}  // namespace

Schedule read_csv(const std::string& text, const std::string& name) {
  Schedule schedule{.name = name};
  std::istringstream lines(text);
  int number = 0;
  size_t actions = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (trimmed(line).empty()) continue;
    schedule.ranks.push_back(read_line(line, name + ", line " + std::to_string(number)));
    actions += schedule.ranks.back().size();
  }
  if (actions == 0)
    throw UsageError(name + ": the file has no actions; write a line for each rank, as in 0F0,0F1,0B0,0B1");
  size_t stages = 0, microbatches = 1;
  for (const auto& list : schedule.ranks)
    for (const Action& action : list) {
      stages = std::max(stages, static_cast<size_t>(action.stage) + 1);
      microbatches = std::max(microbatches, static_cast<size_t>(action.microbatch + 1));
    }
  // A complete schedule has at least two actions for each stage and micro-batch, so larger numbers are a mistake. They
  // would also make the program run out of memory.
  if (stages * microbatches > actions)
    throw UsageError(name + ": the file names " + std::to_string(stages) + " stages and " +
                     std::to_string(microbatches) + " micro-batches, too many for its " + std::to_string(actions) +
                     " actions; stages and micro-batches count from 0");
  schedule.microbatches = static_cast<int>(microbatches);
  schedule.rank_of = placement_of(schedule.ranks, static_cast<int>(stages));
  return schedule;
}

Schedule read_csv_file(const std::string& path, const std::string& name) {
  constexpr std::uintmax_t most_bytes = 1 << 26;
  std::error_code failed;
  if (std::filesystem::is_directory(path, failed)) throw UsageError("'" + name + "' is a directory");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw UsageError("'" + name + "' is no file that can be read");
  const auto size = std::filesystem::file_size(path, failed);
  if (!failed && size > most_bytes) throw UsageError("'" + name + "' has more than 64 MiB");
  return read_csv({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}, name);
}

std::string write_csv(const Schedule& schedule) {
  if (schedule.pipelines > 1)
    throw UsageError(schedule.name + " has every stage twice, which torch's letters cannot express; use -o json");
  std::string text;
  for (const auto& list : schedule.ranks) {
    for (size_t i = 0; i < list.size(); ++i) {
      if (i > 0) text += ',';
      if (!list[i].overlaps_next) {
        text += text_of(list[i]);
        continue;
      }
      text.append(1, '(').append(text_of(list[i])).append(1, ';').append(text_of(list[i + 1]));
      text.append(1, ')').append(overlap);
      ++i;
    }
    text += '\n';
  }
  return text;
}

}  // namespace dpbench::pipeline
