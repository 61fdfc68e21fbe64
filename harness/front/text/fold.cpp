#include "harness/front/text/fold.h"

#include <algorithm>
#include <limits>

#include "harness/front/text/print.h"
#include "harness/front/text/text.h"

namespace dpbench {
namespace {

using Cells = std::vector<std::string>;

constexpr size_t gap = 2, indent = 2;
// Least width of a column whose text wraps. If a line has less room, the column moves to the next line.
constexpr size_t least_text = 24;

struct Extent {
  size_t full = 0;   // width of the column's widest cell
  size_t least = 0;  // smallest width to which the column's cells can be wrapped
};

// Position of a column in every row of the table: the line of the folded row, and the start and width in that line.
struct Place {
  size_t line = 0, start = 0, width = 0;
};

std::vector<Extent> extents_of(const std::vector<Cells>& rows, const std::vector<bool>& right) {
  std::vector<Extent> extents(rows.empty() ? 0 : rows.front().size());
  for (const Cells& row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      extents[i].full = std::max(extents[i].full, display_width(row[i]));
      for (const auto& word : split(row[i], ' ')) extents[i].least = std::max(extents[i].least, display_width(word));
    }
  for (size_t i = 0; i < extents.size(); ++i)
    extents[i].least = right[i] ? extents[i].full : std::min(extents[i].full, std::max(extents[i].least, least_text));
  return extents;
}

// Places the columns of a folded table in order, each beside the one before it if there is room in the line, otherwise
// on a new line.
std::vector<Place> places_of(const std::vector<Extent>& extents, size_t width) {
  std::vector<Place> places;
  Place next;
  for (const auto& [full, least] : extents) {
    if (!places.empty() && next.start + least > width) next = {.line = next.line + 1, .start = indent};
    next.width = std::min(full, std::max(least, width - std::min(width, next.start)));
    places.push_back(next);
    next.start += next.width + gap;
  }
  return places;
}

std::vector<std::string> wrapped(const std::string& text, size_t width) {
  if (display_width(text) <= width) return {text};
  std::vector<std::string> lines(1);
  for (const auto& word : split(text, ' ')) {
    if (!lines.back().empty() && display_width(lines.back()) + 1 + display_width(word) > width) lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + word;
  }
  return lines;
}

std::string row_text(const Cells& row, const std::vector<Place>& places, const std::vector<bool>& right) {
  std::vector<std::string> lines;
  size_t top = 0;  // index of the line at which the current group of side-by-side columns begins
  for (size_t i = 0; i < row.size(); ++i) {
    const Place& place = places[i];
    if (i > 0 && place.line != places[i - 1].line) top = lines.size();
    const auto parts = wrapped(row[i], place.width);
    lines.resize(std::max(lines.size(), top + parts.size()));
    for (size_t k = 0; k < parts.size(); ++k) {
      std::string& line = lines[top + k];
      const size_t start = place.start + (right[i] ? place.width - display_width(parts[k]) : 0);
      line.append(start - std::min(start, display_width(line)), ' ');
      line += parts[k];
    }
  }
  std::string text;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string line = lines[i].substr(0, lines[i].find_last_not_of(' ') + 1);
    if (i == 0 || !line.empty()) text += (i == 0 ? "" : "\n") + line;
  }
  return text;
}

}  // namespace

std::vector<std::string> folded_rows(const std::vector<Cells>& rows, const std::vector<bool>& right, size_t width) {
  const auto places = places_of(extents_of(rows, right), width > 0 ? width : std::numeric_limits<size_t>::max());
  std::vector<std::string> texts;
  for (const Cells& row : rows) texts.push_back(row_text(row, places, right));
  return texts;
}

std::string folded(const std::string& lines) {
  const size_t width = fold_width();
  if (width == 0) return lines;
  std::string text;
  for (const auto& line : split(lines, '\n')) {
    const size_t start = std::min(line.find_first_not_of(' '), line.size());
    // Wrap the first line to the same width as the continuation lines, which have a larger indent.
    const bool fits = display_width(line) <= width;
    const auto parts =
        fits ? std::vector{line.substr(start)} : wrapped(line.substr(start), width - std::min(width, start + indent));
    for (size_t i = 0; i < parts.size(); ++i) text += std::string(start + (i > 0 ? indent : 0), ' ') + parts[i] + "\n";
  }
  return text;
}

std::string folded_columns(const std::string& lines) {
  constexpr size_t indent_below = 8;
  const size_t width = fold_width();
  if (width == 0) return lines;
  std::string text;
  for (const auto& line : split(lines, '\n')) {
    const size_t start = std::min(line.find_first_not_of(' '), line.size());
    const size_t end = line.find("  ", start), second = line.find_first_not_of(' ', end);
    const bool has_columns = second != line.npos;
    if (display_width(line) <= width || (!has_columns && line.starts_with("  dpbench "))) {
      text += line + "\n";
      continue;
    }
    size_t hang = has_columns ? second : start;
    std::string head = line.substr(0, hang);
    const std::string body = line.substr(hang);
    if (width < hang + least_text) {
      if (has_columns) text += line.substr(0, end) + "\n";
      hang = indent_below;
      head = std::string(hang, ' ');
    }
    const auto parts = wrapped(body, width - hang);
    for (size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? head : std::string(hang, ' ')) + parts[i] + "\n";
  }
  return text;
}

}  // namespace dpbench
