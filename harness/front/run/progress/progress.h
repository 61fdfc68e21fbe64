// Shows the progress and messages of a run on stderr: one redrawn line on a terminal, otherwise a plain line per case.
#pragma once

#include <string>
#include <vector>

#include "harness/front/cli/options.h"

namespace dpbench {

enum class ProgressStyle { none, plain, moving };

// Chooses the progress style from --progress, -q, and whether stderr is a terminal that can move its cursor.
ProgressStyle progress_style(const MeasuringOptions& options, bool terminal, const char* term);

// Interface of an observer of a run. ProgressLine notifies the observer, whatever the progress style.
class ProgressListener {
 public:
  virtual ~ProgressListener() = default;
  // begin(): a launch of the case begins. end(): a launch has ended. over(): the case's last launch has ended.
  virtual void begin(const std::string& case_id) = 0;
  virtual void end(const std::string& case_id) = 0;
  virtual void over(const std::string& case_id) = 0;
  virtual void problem(const std::string& text) = 0;  // called for each warning and error, even with -q
};

class ProgressLine {
 public:
  // `launches` is the initial number of launches (starts of the worker processes) per case; add_work() adds more.
  ProgressLine(ProgressStyle style, bool verbose, int cases, double now, int launches = 1);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void tell(ProgressListener& listener) { listener_ = &listener; }

  // begin() and end() report that one launch of a case begins and ends.
  void begin(const std::string& case_id, double now);
  void end(const std::string& case_id, const std::string& result, double now);
  // Reports that the last launch of a case has ended. Prints the case's line in the plain style.
  void over(const std::string& case_id, const std::string& result, double now);
  void add_work(int launches) { total_ += launches; }
  void add_case() { ++cases_, ++total_; }  // another case with one launch
  // Adds the state of the running case to the redrawn line.
  void state(const std::string& case_id, const std::string& text);
  // Shows the progress within one long case on the redrawn line. `done` is the completed fraction, from 0 to 1.
  void part(double done, const std::string& text);
  void clear();                                         // erases the redrawn line; call it before printing to stdout
  void note(const std::string& text);                   // prints a message, but only with -v
  void say(const std::string& text);                    // prints a message unless progress is off (-q)
  void warning(const std::string& text);                // prints a warning unless progress is off (-q)
  void error(const std::string& text);                  // always prints an error message
  void output(const std::string& text) { line(text); }  // always prints a line that a rank printed
  // Holds a warning back until a case has ended. So if a usage error is found first, it is the only message.
  void warn_later(const std::string& text);
  void print_held();  // prints the warnings held back by warn_later()

 private:
  void move(const std::string& text);
  void line(const std::string& text);
  std::string time_left(double now) const;
  double share() const;

  ProgressStyle style_;
  bool verbose_, shown_ = false;
  int cases_, over_ = 0, total_, done_ = 0;  // cases in total and finished; launches in total and finished
  std::vector<std::string> held_warnings_;
  double began_;
  ProgressListener* listener_ = nullptr;
};

// Formats a duration, for example as "8 s", "1m40s" or "2h05m".
std::string duration_text(double seconds);

}  // namespace dpbench
