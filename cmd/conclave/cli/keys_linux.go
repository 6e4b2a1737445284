package cli

import "golang.org/x/sys/unix"

const readTermios, flushTermios = unix.TCGETS, unix.TCSETSF
