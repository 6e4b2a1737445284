package localstack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"conclave/engine/filelock"
)

// Stack describes a running stack. It contains a secret: only the owner may read
// its file, and it must not be printed in full.
type Stack struct {
	TemporalAddress string `json:"temporal_address"` // host:port of the gRPC frontend
	Namespace       string `json:"namespace"`
	UIAddress       string `json:"ui_address"`  // http://127.0.0.1:port
	S3Endpoint      string `json:"s3_endpoint"` // http://127.0.0.1:port, path-style
	S3AccessKey     string `json:"s3_access_key"`
	S3SecretKey     string `json:"s3_secret_key"`
	S3Region        string `json:"s3_region"` // region in the signature of requests
	Bucket          string `json:"bucket"`    // exists when the stack is ready
	DataDir         string `json:"data_dir"`  // absolute path
	LogFile         string `json:"log_file"`  // log file of the servers
	ServerVersion   string `json:"server_version"`
	Protocol        int    `json:"protocol"`    // protocol of the directory's open runs
	OtherUsers      bool   `json:"other_users"` // other users of this machine may connect
	PID             int    `json:"pid"`         // only for people and their tools
	Ports           Ports  `json:"ports"`
}

// Ports are TCP ports on 127.0.0.1. Zero means any.
type Ports struct {
	Temporal int `json:"temporal"`
	UI       int `json:"ui"`
	S3       int `json:"s3"`
}

// Find returns the stack that serves dataDir, if any. Without a lease the stack may stop at any
// time.
func Find(dataDir string) (Stack, bool, error) {
	dir, err := locate(dataDir)
	if err != nil {
		return Stack{}, false, err
	}
	if _, err := os.Stat(dir.readyFile()); errors.Is(err, fs.ErrNotExist) {
		return Stack{}, false, nil
	}
	return dir.serving()
}

// serving returns the running stack, if any. A running stack holds an exclusive lock.
func (d directory) serving() (Stack, bool, error) {
	free, err := filelock.Try(d.readyFile(), filelock.Shared)
	if err != nil {
		return Stack{}, false, err
	}
	if free != nil {
		return Stack{}, false, free.Close()
	}
	stack, err := d.recorded()
	return stack, err == nil, err
}

// recorded returns the record of the running or the previous stack.
func (d directory) recorded() (Stack, error) {
	content, err := os.ReadFile(d.stackFile())
	if err != nil {
		return Stack{}, fmt.Errorf("read the record of the embedded stack: %w", err)
	}
	var stack Stack
	if err := json.Unmarshal(content, &stack); err != nil {
		return Stack{}, fmt.Errorf("read the record of the embedded stack %s: %w", d.stackFile(), err)
	}
	return stack, nil
}

// record replaces the record atomically.
func (d directory) record(stack Stack) error {
	content, err := json.MarshalIndent(stack, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the record of the embedded stack: %w", err)
	}
	next := d.stackFile() + ".next"
	if err = os.WriteFile(next, append(content, '\n'), 0o600); err == nil {
		err = os.Rename(next, d.stackFile())
	}
	if err != nil {
		return fmt.Errorf("write the record of the embedded stack: %w", err)
	}
	return nil
}

// Workers returns the directory, within a data directory, in which workers record
// their running activities.
func Workers(dataDir string) string { return filepath.Join(dataDir, "workers") }

// Bucket is the bucket of every stack.
const Bucket = "conclave"

// Objects returns the directory, within a data directory, that contains the buckets with one file
// per object.
func Objects(dataDir string) string { return filepath.Join(dataDir, "s3") }

// directory is the absolute path of a data directory.
type directory string

func (d directory) lockFile() string  { return filepath.Join(string(d), "stack.lock") }
func (d directory) readyFile() string { return filepath.Join(string(d), "stack.ready") }
func (d directory) leaseFile() string { return filepath.Join(string(d), "stack.leases") }
func (d directory) stackFile() string { return filepath.Join(string(d), "stack.json") }
func (d directory) logFile() string   { return filepath.Join(string(d), "logs", "stack.log") }

func locate(dataDir string) (directory, error) {
	if dataDir == "" {
		return "", errors.New("locate the data directory: the name is empty; give one with --data-dir")
	}
	path, err := filepath.Abs(dataDir)
	if err != nil {
		return "", fmt.Errorf("locate the data directory %s: %w", dataDir, err)
	}
	return directory(path), nil
}

// prepare creates the data directory with private permissions. It refuses an existing one
// whose locks other users could write.
func (d directory) prepare() error {
	if err := supported(); err != nil {
		return err
	}
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return fmt.Errorf("make the data directory: %w; choose another with --data-dir", err)
	}
	info, err := os.Stat(string(d))
	if err != nil {
		return fmt.Errorf("check the data directory: %w", err)
	}
	if info.Mode().Perm()&0o002 != 0 {
		return fmt.Errorf("use the data directory %s: it is world-writable; choose another with --data-dir, or chmod 700 it", d)
	}
	return nil
}
