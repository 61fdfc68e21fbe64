#include "harness/front/launch/outside/error_file.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "harness/report/record/protocol.h"

namespace dpbench {

void write_error_file(const std::string& reason) {
  const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (!path || !*path || std::filesystem::exists(path)) return;
  const auto now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  const Json text = {
      {"message",
       {{"message", reason}, {"extraInfo", {{"timestamp", std::to_string(now.count())}, {"py_callstack", reason}}}}}};
  std::ofstream(path) << text.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace dpbench
