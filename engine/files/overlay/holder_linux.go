package overlay

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	holderName = "conclave-mounts" // the name under which this binary runs as the holder
	socketFD   = 3
)

// canHold tells that this program calls RunHolder. Without it a second start would run the program itself.
var canHold bool

// RunHolder serves the mounts and exits if this process was started as a holder. Otherwise it allows
// Open. The main function of a program that mounts calls it before anything else.
func RunHolder() {
	canHold = true
	if len(os.Args) != 1 || os.Args[0] != holderName || len(os.Environ()) > 0 || !isSocket(socketFD) {
		return
	}
	unix.CloseOnExec(socketFD)
	// A service manager sends these to all processes of a worker, which then still needs its mounts.
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	h := &holder{mounts: map[string]int{}, uppers: map[string]string{}}
	for h.serveRequest() {
	}
	syscall.Exit(0)
}

func isSocket(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK
}

// holder is the process whose mount namespace has the mounts.
type holder struct {
	apart  bool              // mounts do not spread to the host; the host can still unmount its file systems
	mounts map[string]int    // descriptors of the mounts by path
	uppers map[string]string // directories with the changes of the overlays by path
}

// serveRequest answers the next request. It returns false once the worker has ended.
func (h *holder) serveRequest() bool {
	message, _, err := receiveMessage(socketFD)
	if err != nil {
		return false
	}
	var q request
	var tree *os.File
	if err = gob.NewDecoder(bytes.NewReader(message)).Decode(&q); err == nil {
		tree, err = h.handleRequest(q)
	}
	reply := []byte(success)
	if err != nil {
		reply = []byte(failure + err.Error())
	}
	err = sendMessage(socketFD, reply, tree)
	if tree != nil {
		tree.Close()
	}
	return err == nil
}

func (h *holder) handleRequest(q request) (*os.File, error) {
	if !h.apart {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
			return nil, fmt.Errorf("separate the mounts from those of the host: %w", err)
		}
		h.apart = true
	}
	switch q.Op {
	case opOverlay:
		return nil, h.mountOverlay(q)
	case opReadOnly:
		return nil, h.readOnly(q)
	case opUnmount:
		return nil, h.removeMount(filepath.Join(q.At, q.Name))
	case opClone:
		return h.cloneTree(q)
	}
	return nil, fmt.Errorf("%q is not an operation", q.Op)
}

// mountOverlay mounts an overlay. The layers are named by descriptors, because some characters have
// a special meaning in mount options.
func (h *holder) mountOverlay(q request) error {
	config, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("make an overlay: %w", err)
	}
	defer closeFD(config)
	options := map[string]string{"xino": "off"} // files have the inode of their layer
	for option, dir := range map[string]string{"lowerdir": q.Lower, "upperdir": q.Upper, "workdir": q.Work} {
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open %s: %w", dir, err)
		}
		defer closeFD(fd)
		options[option] = fmt.Sprintf("/proc/self/fd/%d", fd)
	}
	for option, value := range options {
		if err := unix.FsconfigSetString(config, option, value); err != nil {
			return fmt.Errorf("make an overlay with %s: %w", option, err)
		}
	}
	for _, option := range []string{"userxattr", "volatile"} { // a workspace need not survive the machine
		if err := unix.FsconfigSetFlag(config, option); err != nil {
			return fmt.Errorf("make an overlay with %s: %w", option, err)
		}
	}
	if err := unix.FsconfigCreate(config); err != nil {
		return fmt.Errorf("make an overlay: %w", err)
	}
	mount, err := unix.Fsmount(config, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	if err != nil {
		return fmt.Errorf("make a mount of an overlay: %w", err)
	}
	if err := unix.MoveMount(mount, "", unix.AT_FDCWD, q.At, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return errors.Join(err, unix.Close(mount))
	}
	h.mounts[q.At], h.uppers[q.At] = mount, q.Upper
	return nil
}

func closeFD(fd int) { _ = unix.Close(fd) }

// readOnly mounts a directory, read-only, on a directory of an overlay. It follows no links, because
// an agent may have made them.
func (h *holder) readOnly(q request) error {
	overlay, found := h.mounts[q.At]
	if !found {
		return fs.ErrNotExist
	}
	target, err := unix.Openat2(overlay, q.Name, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return err
	}
	defer closeFD(target)
	mount, err := unix.OpenTree(unix.AT_FDCWD, q.Lower, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return fmt.Errorf("copy the mount of %s: %w", q.Lower, err)
	}
	err = unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH, &unix.MountAttr{
		Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV,
	})
	if err == nil {
		err = unix.MoveMount(mount, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	}
	if err != nil {
		return errors.Join(err, unix.Close(mount))
	}
	h.mounts[filepath.Join(q.At, q.Name)] = mount
	return nil
}

// removeMount removes a mount, even if its directory has been renamed since.
func (h *holder) removeMount(at string) error {
	mount, found := h.mounts[at]
	if !found {
		return nil
	}
	delete(h.mounts, at)
	delete(h.uppers, at)
	return errors.Join(unix.Unmount(fmt.Sprintf("/proc/self/fd/%d", mount), unix.MNT_DETACH), unix.Close(mount))
}

func (h *holder) cloneTree(q request) (*os.File, error) {
	mount, found := h.mounts[q.At]
	if !found {
		return nil, fs.ErrNotExist
	}
	if q.Owner != 0 {
		if err := giveFiles(fmt.Sprintf("/proc/self/fd/%d", mount), h.uppers[q.At], q.Owner); err != nil {
			return nil, fmt.Errorf("give files to the user %d: %w", q.Owner, err)
		}
	}
	fd, err := unix.OpenTree(mount, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), q.At), nil
}

// giveFiles makes a user the owner of root's files in an overlay. It looks for them in the upper directory
// only, because those of the lower one already belong to that user.
func giveFiles(mount, upper string, owner int) error {
	root, err := os.OpenRoot(mount)
	if err != nil {
		return err
	}
	defer root.Close()
	return filepath.WalkDir(upper, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid != 0 || info.Mode()&fs.ModeCharDevice != 0 { // a removed file is a device
			return nil
		}
		name, err = filepath.Rel(upper, name)
		if err != nil {
			return err
		}
		if err := root.Lchown(name, owner, owner); !errors.Is(err, unix.EROFS) { // a read-only mount covers it
			return err
		}
		return nil
	})
}

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

func sendMessage(socket int, message []byte, tree *os.File) error {
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

// receiveMessage returns the next message and the descriptor sent with it, or nil for a message without one.
func receiveMessage(socket int) ([]byte, *os.File, error) {
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
