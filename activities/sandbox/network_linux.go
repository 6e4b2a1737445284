package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// passage is the worker's end of a command's network access. The child opens a listener on the
// command's loopback and passes it to the worker, whose proxy serves it. The child does not import
// package net, whose initialization would delay every command.
type passage struct {
	socket int           // socket that receives the listener
	theirs *os.File      // the child's end of the socket
	served chan struct{} // closed when proxy is known
	proxy  io.Closer     // nil if the child made no listener
}

// openPassage creates the socket pair over which the listener is passed.
func openPassage() (*passage, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make the sockets of the network: %w", err)
	}
	return &passage{socket: ends[0], theirs: os.NewFile(uintptr(ends[1]), "network"), served: make(chan struct{})}, nil
}

// serve waits for the child's listener and starts the proxy on it.
func (p *passage) serve(way Network) {
	defer close(p.served)
	defer closeFD(p.socket)
	rights := make([]byte, unix.CmsgSpace(4)) // room for one descriptor
	n, err := 0, error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		_, n, _, _, err = unix.Recvmsg(p.socket, make([]byte, 1), rights, unix.MSG_CMSG_CLOEXEC)
	}
	if err != nil {
		return // the child failed, and reports it
	}
	messages, err := syscall.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		return
	}
	passed, err := syscall.ParseUnixRights(&messages[0])
	if err != nil || len(passed) != 1 {
		return
	}
	file := os.NewFile(uintptr(passed[0]), "listener")
	defer file.Close()
	p.proxy = way.Serve(file)
}

// close closes the proxy. It is called after the child has ended, or if the child was not started.
func (p *passage) close(started bool) {
	if !started {
		_ = p.theirs.Close()
		closeFD(p.socket)
		return
	}
	<-p.served // the end of the child closed its socket
	if p.proxy != nil {
		_ = p.proxy.Close()
	}
}

// passListener opens the proxy's listener in the child's network and sends it to the worker over a
// socket. The command inherits neither.
func passListener(socket int) error {
	defer closeFD(socket)
	listener, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer closeFD(listener)
	if err := unix.Bind(listener, &unix.SockaddrInet4{Port: proxyPort, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return err
	}
	if err := unix.Listen(listener, unix.SOMAXCONN); err != nil {
		return err
	}
	return unix.Sendmsg(socket, []byte{0}, unix.UnixRights(listener), nil, 0)
}
