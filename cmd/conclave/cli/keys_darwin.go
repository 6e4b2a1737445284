package cli

import "golang.org/x/sys/unix"

const readTermios, flushTermios = unix.TIOCGETA, unix.TIOCSETAF
