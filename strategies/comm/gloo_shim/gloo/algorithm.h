#pragma once  // named by ProcessGroupGloo.hpp, nothing of it is used
