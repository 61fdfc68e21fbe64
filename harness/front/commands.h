// The commands: each gets its options and returns the exit code. Errors come as exceptions.
#pragma once

#include "harness/front/options.h"

namespace dpbench {

int run_command(const Options& options);
int check_command(const Options& options);
int train_command(const Options& options);
int list_command(const Options& options);
int doctor_command(const Options& options);
int env_command(const Options& options);
int compare_command(const Options& options);
int duel_command(const Options& options);
int project_command(const Options& options);
int export_command(const Options& options);
int report_command(const Options& options);
int validate_command(const Options& options);

// Writes data to stdout; false when it did not all get there (closed pipe, full disk).
bool print(const std::string& text);

// Whether text on this stream may be coloured: --color, NO_COLOR, a terminal that is not "dumb".
bool coloured(const std::string& choice, int descriptor);

}  // namespace dpbench
