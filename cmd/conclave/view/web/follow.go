package web

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/view/page"
	"conclave/engine/files/artifact"
)

// How often a page with readers is updated: for news, for the activities of running steps,
// and for changes without news, such as elapsed times.
const (
	newsInterval  = 250 * time.Millisecond
	workInterval  = time.Second
	wholeInterval = 2 * time.Second
)

// subject is the record behind a page.
type subject interface {
	// readRecord reads the record again.
	readRecord(ctx context.Context) error
	// drawPage renders the last reading.
	drawPage(ctx context.Context, live page.Live, now time.Time) (drawing, error)
	// isRunning reports whether the record may still change.
	isRunning() bool
	// findFolder returns the files of an answer or a visit, or else artifact.ErrNotFound.
	findFolder(label string) (folder, error)
}

// drawing is a page rendered from one reading.
type drawing interface {
	Page(since, notice string, failed bool) ([]byte, error)
	Parts() ([]page.Part, error)
}

// followed is a page that is kept up to date.
type followed struct {
	base       string
	epoch      string // epoch of this process; versions of other processes are meaningless
	subject    subject
	status     func(context.Context) ([]byte, error) // status.json; nil without one
	activities func(context.Context) []cli.Activity  // returns the activities of the running steps; nil if they are unknown
	target     func() string                         // returns the directory to which the change can be applied; nil without one
	live       page.Live

	mu         sync.Mutex
	version    int
	parts      map[string]versioned
	order      []string
	drawn      drawing       // nil before the first reading
	lastStatus []byte        // content of status.json
	readAt     time.Time     // time of the last whole reading
	drawnAt    time.Time     // time of the last drawing
	changed    chan struct{} // closed by the next change
	readers    int
	stopping   context.CancelFunc // stops the loop; nil without readers
}

// versioned is a part with the version of its last change.
type versioned struct {
	page.Part
	version int
}

func newFollowed(base string, of subject) *followed {
	return &followed{
		base: base, subject: of, epoch: strings.ToLower(rand.Text()[:8]), parts: map[string]versioned{}, changed: make(chan struct{}),
	}
}

// refreshLocked reads the record and gives changed parts a new version.
func (f *followed) refreshLocked(ctx context.Context) error {
	if err := f.subject.readRecord(ctx); err != nil {
		return err
	}
	f.readAt = time.Now()
	return f.redrawParts(ctx)
}

// redrawParts renders the last reading with the current activities of its steps.
func (f *followed) redrawParts(ctx context.Context) error {
	live := f.live
	live.Base = f.base
	switch running := f.subject.isRunning(); {
	case running && f.activities != nil:
		live.Running = f.activities(ctx)
	case !running && f.target != nil:
		live.Target = f.target()
	}
	drawn, err := f.subject.drawPage(ctx, live, time.Now())
	if err != nil {
		return err
	}
	parts, err := drawn.Parts()
	if err != nil {
		return err
	}
	f.drawn, f.drawnAt = drawn, time.Now()
	next := f.version + 1
	for _, p := range parts {
		old, known := f.parts[p.ID]
		if known && old.Same(p) {
			f.parts[p.ID] = versioned{p, old.version}
			continue
		}
		if !known {
			f.order = append(f.order, p.ID)
		}
		f.parts[p.ID], f.version = versioned{p, next}, next
	}
	if f.version == next {
		close(f.changed)
		f.changed = make(chan struct{})
	}
	return nil
}

// renderPage returns the page. It reads the record again if the last reading is older than newsInterval.
func (f *followed) renderPage(ctx context.Context, notice string, failed bool) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.readAt) > newsInterval {
		if err := f.refreshLocked(ctx); err != nil {
			return nil, err
		}
	}
	return f.drawn.Page(f.versionID(f.version), notice, failed)
}

func (f *followed) versionID(version int) string { return f.epoch + "." + strconv.Itoa(version) }

// parseVersion returns the version that a reader has, or 0 if another process sent it.
func (f *followed) parseVersion(id string) int {
	epoch, version, _ := strings.Cut(id, ".")
	n, err := strconv.Atoi(version)
	if epoch != f.epoch || err != nil || n < 0 {
		return 0
	}
	return n
}

// newerParts returns the parts newer than a version, the current version, a channel that is closed
// at the next change, and whether the subject has ended.
func (f *followed) newerParts(version int) (parts []page.Part, now int, changed <-chan struct{}, ended bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range f.order {
		if p := f.parts[id]; p.version > version {
			parts = append(parts, p.Part)
		}
	}
	return parts, f.version, f.changed, f.drawn != nil && !f.subject.isRunning()
}

// addReader adds a reader and returns the function that removes it. The page is updated while it has
// readers.
func (f *followed) addReader() (leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readers++
	if f.readers == 1 {
		ctx, stop := context.WithCancel(context.Background())
		f.stopping = stop
		go f.updatePeriodically(ctx)
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.readers--; f.readers == 0 {
			f.stopping()
		}
	}
}

func (f *followed) updatePeriodically(ctx context.Context) {
	tick := time.NewTicker(newsInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.refreshIfDue(ctx)
		}
	}
}

// refreshIfDue reads the record again, or only renders it, if either is due. After an error the next
// look tries again.
func (f *followed) refreshIfDue(ctx context.Context) {
	news := f.hasNews(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case news || time.Since(f.readAt) > wholeInterval:
		_ = f.refreshLocked(ctx)
	case f.activities != nil && f.drawn != nil && f.subject.isRunning() && time.Since(f.drawnAt) > workInterval:
		_ = f.redrawParts(ctx)
	}
}

// hasNews reports whether status.json has changed.
func (f *followed) hasNews(ctx context.Context) bool {
	if f.status == nil {
		return false
	}
	data, err := f.status(ctx)
	if err != nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	news := !bytes.Equal(data, f.lastStatus)
	f.lastStatus = data
	return news
}

// renderTranscript renders the transcript of a step, or that of the evaluation of an answer, given by a
// request's agent and number, or label.
func (f *followed) renderTranscript(ctx context.Context, value func(name string) string) ([]byte, error) {
	of, ok := f.subject.(*session)
	if !ok {
		return nil, record.ErrNone
	}
	f.mu.Lock()
	err := f.readyLocked(ctx)
	s := of.last
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	number, _ := strconv.Atoi(value("number")) // 0 is no step
	p, read := s.Step(value("agent"), number), of.reader.Transcript
	if label := value("label"); label != "" {
		p, read = s.Answered(label), of.reader.EvaluationTranscript
	}
	if p == nil || value("label") != "" && p.Evaluation == nil {
		return nil, record.ErrNone
	}
	t, err := read(ctx, p)
	if err != nil && !errors.Is(err, artifact.ErrNotFound) { // the page has a text for a missing transcript
		return nil, err
	}
	return page.Transcript(t, p)
}

func (f *followed) findFolder(ctx context.Context, label string) (folder, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.readyLocked(ctx); err != nil {
		return folder{}, err
	}
	return f.subject.findFolder(label)
}

// readyLocked reads the record if there is no reading yet.
func (f *followed) readyLocked(ctx context.Context) error {
	if f.drawn != nil {
		return nil
	}
	if err := f.refreshLocked(ctx); err != nil {
		return fmt.Errorf("read %s: %w", f.base, err)
	}
	return nil
}
