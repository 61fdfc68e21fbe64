// What a run says on stderr while it goes on: one moving line on a terminal, else a plain line a case.
#pragma once

#include <string>
#include <vector>

#include "harness/front/cli/options.h"

namespace dpbench {

enum class ProgressStyle { none, plain, moving };

// --progress, -q, and whether stderr is a terminal that can move its cursor.
ProgressStyle progress_style(const MeasuringOptions& options, bool terminal, const char* term);

class ProgressLine {
 public:
  // launches: of each case, to begin with.
  ProgressLine(ProgressStyle style, bool verbose, int cases, double now, int launches = 1);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // A launch of a case begins, and ends.
  void begin(const std::string& case_id, double now);
  void end(const std::string& case_id, const std::string& result, double now);
  // The last of them has ended: the plain line.
  void over(const std::string& case_id, const std::string& result, double now);
  void add_work(int launches) { total_ += launches; }
  // How far one long case is, on the moving line: done of all, then words.
  void part(double done, const std::string& text);
  void clear();                           // before something is printed on stdout
  void note(const std::string& text);     // only with -v
  void warning(const std::string& text);  // unless -q
  void error(const std::string& text);    // always
  void later(const std::string& text);  // a warning, once a case has ended: a mistake found before is all that is said
  void say_held();                      // those, at once

 private:
  void move(const std::string& text);
  void line(const std::string& text);
  std::string left(double now) const;
  double share() const;

  ProgressStyle style_;
  bool verbose_, shown_ = false;
  int cases_, over_ = 0, total_, done_ = 0;  // in all and launches of them
  std::vector<std::string> held_;
  double began_;
};

// "8 s", "1m40s", "2h05m".
std::string duration_text(double seconds);

}  // namespace dpbench
