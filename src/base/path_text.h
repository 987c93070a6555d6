/* path_text.h: a path as error messages show it. */
#ifndef MMCI_PATH_TEXT_H
#define MMCI_PATH_TEXT_H

enum { MMCI_PATH_TEXT_SIZE = 256 };

/* Copies path into text and returns text. Control characters become '?', so that a message stays
 * one line; of a long path only the end is kept, so that the message keeps its reason. */
char *mmci_path_text(const char *path, char text[MMCI_PATH_TEXT_SIZE]);

#endif
