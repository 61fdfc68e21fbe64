// An empty stand-in for a header of Gloo, which ProcessGroupGloo.hpp includes without using anything from it.
#pragma once
