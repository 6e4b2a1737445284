package overlay

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Mounts is a mount namespace. Its methods may be called concurrently.
type Mounts struct {
	holder *exec.Cmd // waited for only in Close, so that no other process gets its ID before
	mu     sync.Mutex
	socket *os.File
}

// Open creates a mount namespace.
func Open() (*Mounts, error) {
	if !canHold {
		return nil, errors.New("make a mount namespace: the program does not call overlay.RunHolder in main")
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a mount namespace: %w", err)
	}
	m := &Mounts{holder: exec.Command("/proc/self/exe"), socket: os.NewFile(uintptr(pair[0]), "holder")}
	theirs := os.NewFile(uintptr(pair[1]), "requests")
	defer theirs.Close()
	m.holder.Args, m.holder.Env = []string{holderName}, []string{}
	m.holder.ExtraFiles = []*os.File{theirs}
	m.holder.SysProcAttr = &syscall.SysProcAttr{
		Setsid:      true, // an interrupt from the terminal is not for the holder
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: idMappings(os.Geteuid()), GidMappings: idMappings(os.Getegid()),
	}
	if err := m.holder.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("make a mount namespace: %w", err), m.socket.Close())
	}
	return m, nil
}

// idMappings maps root of the namespace to an ID of this process. If the process is root, nobody is
// mapped as well.
func idMappings(id int) []syscall.SysProcIDMap {
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: id, Size: 1}}
	if os.Geteuid() == 0 {
		ids = append(ids, syscall.SysProcIDMap{ContainerID: nobody, HostID: nobody, Size: 1})
	}
	return ids
}

// Path returns the path at which this process sees an absolute path without links as it is in the namespace.
func (m *Mounts) Path(name string) string {
	return filepath.Join("/proc", strconv.Itoa(m.holder.Process.Pid), "root", name)
}

// Overlay mounts lower on the directory at. Changes go to the empty directory upper, which
// must be on one file system with the empty directory work. Nothing may change lower while it is
// mounted. The paths must be absolute and have no links.
func (m *Mounts) Overlay(lower, upper, work, at string) error {
	_, err := m.sendRequest(request{Op: opOverlay, Lower: lower, Upper: upper, Work: work, At: at})
	if err == nil {
		err = m.checkVisible(at)
	}
	if err != nil {
		return fmt.Errorf("mount an overlay on %s: %w", at, err)
	}
	return nil
}

// checkVisible returns an error unless this process sees an overlay at a path.
func (m *Mounts) checkVisible(at string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(m.Path(at), &st); err != nil {
		return err
	}
	if st.Type != unix.OVERLAYFS_SUPER_MAGIC {
		return errors.New("the mount cannot be seen from outside its namespace")
	}
	return nil
}

// ReadOnly mounts the directory lower, read-only, on the directory name of the overlay at a path.
func (m *Mounts) ReadOnly(lower, at, name string) error {
	if _, err := m.sendRequest(request{Op: opReadOnly, Lower: lower, At: at, Name: name}); err != nil {
		return fmt.Errorf("mount %s on %s of %s: %w", lower, name, at, err)
	}
	return nil
}

// Unmount removes the mount on a path, or on a directory of the overlay there, and all mounts in it.
func (m *Mounts) Unmount(at, name string) error {
	if _, err := m.sendRequest(request{Op: opUnmount, At: at, Name: name}); err != nil {
		return fmt.Errorf("unmount %s: %w", filepath.Join(at, name), err)
	}
	return nil
}

// Clone returns a detached copy of an overlay and of the mounts in it, for another mount namespace.
// If owner is not this process's user, Clone gives it all files that this process has written.
func (m *Mounts) Clone(at string, owner int) (*os.File, error) {
	q := request{Op: opClone, At: at}
	if owner != os.Geteuid() {
		q.Owner = owner
	}
	tree, err := m.sendRequest(q)
	if err == nil && tree == nil {
		err = errors.New("there was no mount in the reply")
	}
	if err != nil {
		return nil, fmt.Errorf("copy the mount on %s: %w", at, err)
	}
	return tree, nil
}

// Tree returns a function that clones the overlay at a path below Path. It returns nil for any other
// path, and if m is nil.
func (m *Mounts) Tree(name string) func(owner int) (*os.File, error) {
	if m == nil {
		return nil
	}
	at, mounted := strings.CutPrefix(name, m.Path("/"))
	if !mounted {
		return nil
	}
	return func(owner int) (*os.File, error) { return m.Clone(at, owner) }
}

// Close removes all mounts and ends the namespace.
func (m *Mounts) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.socket.Close()
	_ = m.holder.Wait()
}

// sendRequest sends a request and returns the reply's error or mount. The mount is nil for most requests.
func (m *Mounts) sendRequest(q request) (*os.File, error) {
	var message bytes.Buffer
	_ = gob.NewEncoder(&message).Encode(q) // into memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := sendMessage(int(m.socket.Fd()), message.Bytes(), nil); err != nil {
		return nil, fmt.Errorf("send a request to the holder of the mount namespace: %w", err)
	}
	reply, tree, err := receiveMessage(int(m.socket.Fd()))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the reply of the holder of the mount namespace: %w", err)
	case strings.HasPrefix(string(reply), failure):
		return nil, errors.New(string(reply[len(failure):]))
	}
	return tree, nil
}
