// apps: the command.
#include "everstep/cli/command.h"

int main(int argc, char** argv) { return everstep::EverstepMain(argc, argv); }
