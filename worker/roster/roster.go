package roster

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"conclave/engine/filelock"
)

const (
	suffix = ".json"

	// fresh is appended to the name of a file until it is locked.
	fresh = ".next"

	// settled is the time after which the result of an ended activity has reached the server or was
	// given up.
	settled = time.Minute

	// spare is the number of ended activities that a file may contain in addition to as many as are
	// running.
	spare = 100
)

// Task is a running activity.
type Task struct {
	Token      []byte `json:"token"`
	Namespace  string `json:"namespace"`
	WorkflowID string `json:"workflow_id"`
	RunID      string `json:"run_id"`
	ActivityID string `json:"activity_id"`
}

// Dead is a process that has died, and the activities that it was running.
type Dead struct {
	Identity string // the worker's identity as the server knows it
	Tasks    []Task
}

// head is the first line of a file; the other lines are Tasks.
type head struct {
	Server   string `json:"server"`
	Identity string `json:"identity"`
}

// Roster is the file of this process. The methods of a nil Roster do nothing.
type Roster struct {
	path string
	head head

	mu    sync.Mutex
	file  *os.File // locked file
	tasks map[string]entry
	lines int // number of lines with tasks in the file
}

type entry struct {
	Task
	ended time.Time // zero while it runs
}

// Open creates the file of this process in dir. server is the server of its activities, and
// identity its name on that server.
func Open(dir, server, identity string) (*Roster, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the workers' tasks: %w", err)
	}
	r := &Roster{path: filepath.Join(dir, rand.Text()+suffix), head: head{Server: server, Identity: identity}, tasks: map[string]entry{}}
	return r, r.rewrite(time.Now())
}

// Begin adds an activity. It is called before the activity runs.
func (r *Roster) Begin(t Task) error {
	if r == nil {
		return nil
	}
	line, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("encode the task of %s: %w", t.ActivityID, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tasks[string(t.Token)] = entry{Task: t}
	if r.lines > 2*len(r.tasks)+spare {
		return r.rewrite(time.Now())
	}
	// A line that remains incomplete because the process died is ignored.
	if _, err := r.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write %s: %w", r.path, err)
	}
	r.lines++
	return nil
}

// End removes an activity some time after it has returned, because the server may not have its
// result before.
func (r *Roster) End(token []byte) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if e, ok := r.tasks[string(token)]; ok {
		e.ended = now
		r.tasks[string(token)] = e
	}
	for token, e := range r.tasks {
		if !e.ended.IsZero() && now.Sub(e.ended) > settled {
			delete(r.tasks, token)
		}
	}
}

// rewrite replaces the file with one that has only the current tasks. The caller holds the lock.
func (r *Roster) rewrite(now time.Time) error {
	var content bytes.Buffer
	lines := json.NewEncoder(&content)
	_ = lines.Encode(r.head)
	for token, e := range r.tasks {
		if !e.ended.IsZero() && now.Sub(e.ended) > settled {
			delete(r.tasks, token)
			continue
		}
		_ = lines.Encode(e.Task)
	}
	file, err := os.OpenFile(r.path+fresh, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("write the tasks of this worker: %w", err)
	}
	// The file is locked before it is renamed, so that no other process finds it unlocked.
	locked, err := filelock.TryFile(file, filelock.Exclusive)
	if err == nil && !locked {
		err = errors.New("it is locked")
	}
	if err == nil {
		_, err = file.Write(content.Bytes())
	}
	if err == nil {
		err = os.Rename(file.Name(), r.path)
	}
	if err != nil {
		_ = file.Close()
		_ = os.Remove(file.Name())
		return fmt.Errorf("write the tasks of this worker to %s: %w; choose a directory on a local file system", r.path, err)
	}
	if r.file != nil {
		_ = r.file.Close()
	}
	r.file, r.lines = file, len(r.tasks)
	return nil
}

// Close removes the file. If activities are still running, it only unlocks the file, and other
// processes report the activities as lost.
func (r *Roster) Close() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	running := false
	for _, e := range r.tasks {
		running = running || e.ended.IsZero()
	}
	if !running {
		_ = os.Remove(r.path)
	}
	_ = r.file.Close()
}
