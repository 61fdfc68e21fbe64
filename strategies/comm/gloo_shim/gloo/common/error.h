#pragma once  // empty stand-in: ProcessGroupGloo.hpp includes this header but uses nothing from it
