#pragma once  // included by ProcessGroupGloo.hpp, which uses nothing from it
