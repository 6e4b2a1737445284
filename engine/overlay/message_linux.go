package overlay

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// The operations of requests.
const (
	opOverlay  = "overlay"
	opReadOnly = "read-only"
	opUnmount  = "unmount"
	opClone    = "clone"
)

// request is a message to the holder. It is encoded with gob, because JSON cannot hold every path.
type request struct {
	Op                 string
	At                 string // path of the overlay
	Name               string // directory in it; empty for the overlay itself
	Lower, Upper, Work string
	Owner              int // new owner of the files that root has written; 0 for no change
}

// The replies of the holder. A failure is followed by the text of the error.
const (
	success = "+"
	failure = "-"
)

// maxMessage bounds a message, whose longest parts are four paths.
const maxMessage = 32 << 10

// send sends a message with a descriptor, unless that is nil.
func send(socket int, message []byte, tree *os.File) error {
	var rights []byte
	if tree != nil {
		rights = unix.UnixRights(int(tree.Fd()))
	}
	for {
		err := unix.Sendmsg(socket, message, rights, nil, unix.MSG_NOSIGNAL)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// receive returns the next message and the descriptor sent with it, or nil for a message without one.
func receive(socket int) ([]byte, *os.File, error) {
	message, rights := make([]byte, maxMessage), make([]byte, unix.CmsgSpace(4))
	n, used, _, _, err := unix.Recvmsg(socket, message, rights, unix.MSG_CMSG_CLOEXEC)
	for errors.Is(err, unix.EINTR) {
		n, used, _, _, err = unix.Recvmsg(socket, message, rights, unix.MSG_CMSG_CLOEXEC)
	}
	switch {
	case err != nil:
		return nil, nil, err
	case n == 0: // no message is empty
		return nil, nil, io.EOF
	case used == 0:
		return message[:n], nil, nil
	}
	parts, err := unix.ParseSocketControlMessage(rights[:used])
	if err != nil {
		return nil, nil, err
	}
	fds, err := unix.ParseUnixRights(&parts[0])
	if err != nil {
		return nil, nil, err
	}
	return message[:n], os.NewFile(uintptr(fds[0]), "mount"), nil
}
