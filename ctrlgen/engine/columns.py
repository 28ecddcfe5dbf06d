"""What the numbers in the arrays of lexicon and network mean, for those who write them and for the kernels alike."""

# node kinds, nodes[:, 0]
UNBUILT, BYTES, CALL, FORK, END, ENTER, RETURN, BEGIN_NAME, NAME = 0, 1, 2, 3, 4, 5, 6, 7, 8
ITEM, BEGIN_OBJECT, BEGIN_ARRAY, ENTER_SPAN = 9, 10, 11, 12
AFTER_MEMBER, AFTER_ITEM = 13, 14  # from AFTER_MEMBER on: keep the frame
# columns of trie nodes
BYTE, AFTER, LO, HI, DENSE, DEPTH = 0, 1, 2, 3, 4, 5
# columns of lexicon states
FINAL, BOUNDARY, LEAF, RANGE_LO, RANGE_HI, REST, REST_LO, REST_HI, COUNTED, LABEL, ENDINGS = range(11)
# columns of objects
SLOTS, SLOTS_END, NAMES, NAMES_END, START, CLASSES, LEAST, MOST, WANTED = 0, 1, 2, 3, 4, 5, 6, 7, 8
ORDERED, WORDS, AFTER_NODE, NAME_NODE, COVER, FIRST_RECORD, FINITE, IMPLYING = 9, 10, 11, 12, 13, 14, 15, 16
# columns of slots
WAYS, WAYS_END, REQUIRED, IMPLIED, IMPLIED_END = 0, 1, 2, 3, 4
# columns of arrays
PLACES, ARRAY_LEAST, ARRAY_MOST, ITEMS, ARRAY_AFTER = 0, 1, 2, 3, 4
# row of a string without limit
UNLIMITED = 255
# REST: not computed yet; -1: nothing can follow inside a token
UNKNOWN = -2
# edges of BYTES from here on read no byte but a letter: LETTERS + id of a control token, or LEAVE, which reads nothing
# and is taken by who decodes
LETTERS, LEAVE = 256, 1 << 40
# and from here on a place where something else is filled in (filled), by its number
HOLES = 1 << 41
# ENDINGS: this many or more
ENDLESS = 1 << 30
# states of the parts of texts (kernel_spans) have numbers from here on, so that they are told from those of the lexicon
SPAN = 1 << 40
# a state with more live bytes than this walks the whole trie, another one only the subtrees of its own bytes
WIDE = 24
