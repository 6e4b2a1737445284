package worker

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	sdkworker "go.temporal.io/sdk/worker"

	"conclave/engine/files/filelock"
	"conclave/worker/cluster"
)

const (
	suffix = ".json"

	// fresh is appended to the name of a file until it is locked.
	fresh = ".next"

	// settled is the time after which the result of an ended activity has reached the server or was given up.
	settled = time.Minute

	// spare is the number of ended activities that a file may contain in addition to as many as are running.
	spare = 100
)

// RosterTask is a running activity.
type RosterTask struct {
	Token      []byte `json:"token"` // of one attempt; without it, Report fails the current one
	Namespace  string `json:"namespace"`
	WorkflowID string `json:"workflow_id"`
	RunID      string `json:"run_id"`
	ActivityID string `json:"activity_id"`
}

// DeadWorker is a process that has died, and the activities that it was running.
type DeadWorker struct {
	Identity string // the worker's identity as the server knows it
	Tasks    []RosterTask
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
	tasks map[string]rosterEntry
	lines int // number of lines with tasks in the file
}

type rosterEntry struct {
	RosterTask
	ended time.Time // zero while it runs
}

// OpenRoster creates the file of this process in dir. server is the server of its activities, and
// identity its name on that server.
func OpenRoster(dir, server, identity string) (*Roster, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the workers' tasks: %w", err)
	}
	r := &Roster{path: filepath.Join(dir, rand.Text()+suffix), head: head{Server: server, Identity: identity}, tasks: map[string]rosterEntry{}}
	return r, r.rewriteFile(time.Now())
}

// Begin adds an activity. It is called before the activity runs.
func (r *Roster) Begin(t RosterTask) error {
	if r == nil {
		return nil
	}
	line, _ := json.Marshal(t) // a task always has a JSON form
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tasks[string(t.Token)] = rosterEntry{RosterTask: t}
	if r.lines > 2*len(r.tasks)+spare {
		return r.rewriteFile(time.Now())
	}
	// A line that remains incomplete because the process died is ignored.
	if _, err := r.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write %s: %w", r.path, err)
	}
	r.lines++
	return nil
}

// End removes an activity some time after it has returned, because the server may not have its result before.
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

// rewriteFile replaces the file with one that has only the current tasks. The caller holds the lock.
func (r *Roster) rewriteFile(now time.Time) error {
	var content bytes.Buffer
	lines := json.NewEncoder(&content)
	_ = lines.Encode(r.head)
	for token, e := range r.tasks {
		if !e.ended.IsZero() && now.Sub(e.ended) > settled {
			delete(r.tasks, token)
			continue
		}
		_ = lines.Encode(e.RosterTask)
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

// openRoster records this process's running activities until forget is called. On a cluster it also
// watches the other processes that use the same directory; the embedded stack does that itself.
// Without a roster, the death of this process is only detected by missing heartbeats.
func (c Config) openRoster() (noted interceptor.WorkerInterceptor, forget func(), err error) {
	if c.Roster == "" {
		return &notes{}, func() {}, nil
	}
	r, err := OpenRoster(c.Roster, c.Server, cluster.WorkerIdentity())
	if err != nil {
		return nil, nil, err
	}
	if c.Server == "" {
		return &notes{roster: r}, r.Close, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { WatchRosters(ctx, c.Roster, c.Server, ReportDead(ctx, c.Client), func() {}) })
	return &notes{roster: r}, func() { cancel(); watching.Wait(); r.Close() }, nil
}

// notes intercepts activities to record those that are running.
type notes struct {
	interceptor.WorkerInterceptorBase
	roster *Roster
}

func (n *notes) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &notedActivity{interceptor.ActivityInboundInterceptorBase{Next: next}, n.roster}
}

type notedActivity struct {
	interceptor.ActivityInboundInterceptorBase
	roster *Roster
}

func (a *notedActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	info := activity.GetInfo(ctx)
	err := a.roster.Begin(RosterTask{
		Token: info.TaskToken, Namespace: info.Namespace, WorkflowID: info.WorkflowExecution.ID, RunID: info.WorkflowExecution.RunID, ActivityID: info.ActivityID,
	})
	if err != nil {
		activity.GetLogger(ctx).Warn("the death of this worker would be noticed late", "error", err)
	}
	defer a.roster.End(info.TaskToken)
	return a.Next.ExecuteActivity(ctx, in)
}

// lagPoll is the interval at which a worker with late heartbeats checks them again.
const lagPoll = 500 * time.Millisecond

// slots limits the steps that a worker runs concurrently. It grants no new ones while the
// heartbeats of running steps are late.
type slots struct {
	sdkworker.SlotSupplier
	lagging func() bool
}

func newTuner(steps int, lagging func() bool) sdkworker.WorkerTuner {
	const unused = 1 // slots for kinds of tasks that this worker does not run
	fixed := func(n int) sdkworker.SlotSupplier {
		supplier, _ := sdkworker.NewFixedSizeSlotSupplier(n) // n is positive
		return supplier
	}
	tuner, _ := sdkworker.NewCompositeTuner(sdkworker.CompositeTunerOptions{
		WorkflowSlotSupplier: fixed(unused), LocalActivitySlotSupplier: fixed(unused),
		NexusSlotSupplier: fixed(unused), SessionActivitySlotSupplier: fixed(unused),
		ActivitySlotSupplier: slots{SlotSupplier: fixed(steps), lagging: lagging},
	})
	return tuner
}

// ReserveSlot implements worker.SlotSupplier. It first waits for a slot, then until no heartbeat is
// late, because heartbeats may become late while it waits for the slot.
func (s slots) ReserveSlot(ctx context.Context, info sdkworker.SlotReservationInfo) (*sdkworker.SlotPermit, error) {
	permit, err := s.SlotSupplier.ReserveSlot(ctx, info)
	if err != nil {
		return nil, err
	}
	for warned := false; s.lagging(); warned = true {
		if !warned {
			info.Logger().Warn("heartbeats are late: no new steps until they are not; run fewer at a time, or more workers")
		}
		select {
		case <-ctx.Done():
			s.ReleaseSlot(nil) // a fixed number of slots needs no details
			return nil, ctx.Err()
		case <-time.After(lagPoll):
		}
	}
	return permit, nil
}

func (s slots) TryReserveSlot(info sdkworker.SlotReservationInfo) *sdkworker.SlotPermit {
	if s.lagging() {
		return nil
	}
	return s.SlotSupplier.TryReserveSlot(info)
}
