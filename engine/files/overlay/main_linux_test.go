package overlay_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"conclave/engine/files/overlay"
)

// mounter is the variable that makes this binary a process with a mount, for a test to kill. Its
// value is the directory of the mount.
const mounter = "OVERLAY_MOUNTER"

func TestMain(m *testing.M) {
	overlay.RunHolder()
	if dir := os.Getenv(mounter); dir != "" {
		if err := hold(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// hold mounts an overlay, prints the path of a file in it and waits. A directory volume, if there is
// one, has a file system until the overlay is mounted.
func hold(dir string) error {
	volume := filepath.Join(dir, "volume")
	_, err := os.Stat(volume)
	mounted := err == nil
	if mounted {
		if err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""), unix.Mount("none", volume, "tmpfs", 0, "")); err != nil {
			return err
		}
	}
	mounts, err := overlay.Open()
	if err != nil {
		return err
	}
	at := filepath.Join(dir, "at")
	if err := mounts.Overlay(filepath.Join(dir, "lower"), filepath.Join(dir, "upper"), filepath.Join(dir, "work"), at); err != nil {
		return err
	}
	if mounted {
		if err := unix.Unmount(volume, 0); err != nil {
			return err
		}
	}
	fmt.Println(mounts.Path(filepath.Join(at, "file")))
	time.Sleep(time.Hour)
	return nil
}
