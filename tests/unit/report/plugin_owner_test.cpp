// Tests that dpbench refuses a plug-in whenever another user could change its file.
#include "harness/report/machine/plugin_owner.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

namespace dpbench {
namespace {

namespace fs = std::filesystem;
using Kind = PluginFault::Kind;

class PluginOwner : public testing::Test {
 protected:
  PluginOwner() {
    std::string name = (fs::temp_directory_path() / "plugin-owner-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    file_ = folder_ / "plugin.so";
    ::close(::open(file_.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    set_modes(0755, 0644);
  }
  ~PluginOwner() override { fs::remove_all(folder_); }

  void set_modes(mode_t folder_mode, mode_t file_mode) const {
    EXPECT_EQ(::chmod(folder_.c_str(), folder_mode), 0);
    EXPECT_EQ(::chmod(file_.c_str(), file_mode), 0);
  }
  void expect_fault(Kind kind, const fs::path& path, uid_t owner = ::geteuid()) const {
    const auto fault = fault_of_plugin(file_);
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->kind, kind);
    EXPECT_EQ(fault->path.string(), path.string());
    EXPECT_EQ(fault->owner, owner);
  }

  fs::path folder_, file_;
};

TEST_F(PluginOwner, AcceptsAFileOfThisUser) { EXPECT_FALSE(fault_of_plugin(file_)); }

TEST_F(PluginOwner, RefusesAFileThatOthersCanWrite) {
  for (const mode_t mode : {0666U, 0664U, 0646U, 01666U}) {
    set_modes(0755, mode);
    expect_fault(Kind::writable_by_others, file_);
  }
}

TEST_F(PluginOwner, RefusesAFileInAFolderThatOthersCanWriteUnlessTheFolderIsSticky) {
  for (const mode_t mode : {0777U, 0775U, 0757U}) {
    set_modes(mode, 0644);
    expect_fault(Kind::writable_by_others, folder_);
  }
  // a folder with the sticky bit, like /tmp, is accepted although everybody may create files in it
  set_modes(01777, 0644);
  EXPECT_FALSE(fault_of_plugin(file_));
}

TEST_F(PluginOwner, RefusesAFileOrFolderOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  for (const auto& path : {file_, folder_}) {
    ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
    expect_fault(Kind::of_another_user, path, 12345);
    ASSERT_EQ(::chown(path.c_str(), 0, 0), 0);
  }
}

TEST_F(PluginOwner, RefusesAMissingFile) {
  fs::remove(file_);
  const auto fault = fault_of_plugin(file_);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, Kind::missing);
}

}  // namespace
}  // namespace dpbench
