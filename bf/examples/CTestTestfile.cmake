# CMake generated Testfile for 
# Source directory: /tmp/w/hard/examples
# Build directory: /tmp/w/hard/bf/examples
# 
# This file includes the relevant testing commands required for 
# testing this directory and lists subdirectories to be tested as well.
