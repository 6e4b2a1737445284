package live

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"conclave/cmd/conclave/page"
	"conclave/cmd/conclave/progress"
	"conclave/cmd/conclave/record"
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
	// read reads the record again.
	read(ctx context.Context) error
	// draw renders the last reading.
	draw(ctx context.Context, live page.Live, now time.Time) (drawing, error)
	// running reports whether the record may still change.
	running() bool
}

// drawing is a page rendered from one reading.
type drawing interface {
	Page(since, notice string, failed bool) ([]byte, error)
	Parts() ([]page.Part, error)
}

// followed is a page that is kept up to date.
type followed struct {
	id      string
	base    string
	epoch   string // epoch of this process; versions of other processes are meaningless
	subject subject
	session *session                                  // the subject if it is a session; else nil
	status  func(context.Context) ([]byte, error)     // status.json; nil without one
	doing   func(context.Context) []progress.Activity // returns the activities of the running steps; nil if they are unknown
	live    page.Live

	mu       sync.Mutex
	version  int
	parts    map[string]versioned
	order    []string
	drawn    drawing       // nil before the first reading
	last     []byte        // content of status.json
	read     time.Time     // time of the last whole reading
	looked   time.Time     // time of the last drawing
	changed  chan struct{} // closed by the next change
	readers  int
	stopping context.CancelFunc // stops the loop; nil without readers
}

// versioned is a part with the version of its last change.
type versioned struct {
	page.Part
	version int
}

func newFollowed(id, base string, of subject) *followed {
	f := &followed{
		id: id, base: base, subject: of, epoch: strings.ToLower(rand.Text()[:8]), parts: map[string]versioned{}, changed: make(chan struct{}),
	}
	f.session, _ = of.(*session)
	return f
}

// refreshLocked reads the record and gives changed parts a new version.
func (f *followed) refreshLocked(ctx context.Context) error {
	if err := f.subject.read(ctx); err != nil {
		return err
	}
	f.read = time.Now()
	return f.redraw(ctx)
}

// redraw renders the last reading with the current activities of its steps.
func (f *followed) redraw(ctx context.Context) error {
	live := f.live
	live.Base = f.base
	if f.doing != nil && f.subject.running() {
		live.Running = f.doing(ctx)
	}
	drawn, err := f.subject.draw(ctx, live, time.Now())
	if err != nil {
		return err
	}
	parts, err := drawn.Parts()
	if err != nil {
		return err
	}
	f.drawn, f.looked = drawn, time.Now()
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

// page returns the page. It reads the record again if the last reading is older than newsInterval.
func (f *followed) page(ctx context.Context, notice string, failed bool) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.read) > newsInterval {
		if err := f.refreshLocked(ctx); err != nil {
			return nil, err
		}
	}
	return f.drawn.Page(f.at(f.version), notice, failed)
}

func (f *followed) at(version int) string { return f.epoch + "." + strconv.Itoa(version) }

// since returns the version that a reader has, or 0 if another process sent it.
func (f *followed) since(id string) int {
	epoch, version, _ := strings.Cut(id, ".")
	n, err := strconv.Atoi(version)
	if epoch != f.epoch || err != nil || n < 0 {
		return 0
	}
	return n
}

// after returns the parts newer than a version, the current version, a channel that is closed
// at the next change, and whether the subject has ended.
func (f *followed) after(version int) (parts []page.Part, now int, changed <-chan struct{}, ended bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range f.order {
		if p := f.parts[id]; p.version > version {
			parts = append(parts, p.Part)
		}
	}
	return parts, f.version, f.changed, f.drawn != nil && !f.subject.running()
}

// join adds a reader and returns the function that removes it. The page is updated while it has
// readers.
func (f *followed) join() (leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readers++
	if f.readers == 1 {
		ctx, stop := context.WithCancel(context.Background())
		f.stopping = stop
		go f.watch(ctx)
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.readers--; f.readers == 0 {
			f.stopping()
		}
	}
}

// watch updates the page periodically until ctx ends.
func (f *followed) watch(ctx context.Context) {
	tick := time.NewTicker(newsInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.look(ctx)
		}
	}
}

// look reads the record again, or only renders it, if either is due. After an error the next
// look tries again.
func (f *followed) look(ctx context.Context) {
	news := f.news(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case news || time.Since(f.read) > wholeInterval:
		_ = f.refreshLocked(ctx)
	case f.doing != nil && f.drawn != nil && f.subject.running() && time.Since(f.looked) > workInterval:
		_ = f.redraw(ctx)
	}
}

// news reports whether status.json has changed.
func (f *followed) news(ctx context.Context) bool {
	if f.status == nil {
		return false
	}
	data, err := f.status(ctx)
	if err != nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	news := !bytes.Equal(data, f.last)
	f.last = data
	return news
}

// current returns the session of the last reading, or record.ErrNone for a page of
// another kind.
func (f *followed) current(ctx context.Context) (*record.Session, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.session == nil {
		return nil, record.ErrNone
	}
	if err := f.readyLocked(ctx); err != nil {
		return nil, err
	}
	return f.session.last, nil
}

// run returns the pipeline's run of the last reading, or record.ErrNone for a page of another
// kind.
func (f *followed) run(ctx context.Context) (*record.Pipeline, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	of, ok := f.subject.(*pipeline)
	if !ok {
		return nil, record.ErrNone
	}
	if err := f.readyLocked(ctx); err != nil {
		return nil, err
	}
	return of.last, nil
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
