package web

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/test/stage"
	"conclave/cmd/conclave/view/page"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
)

// refresh reads the record for a caller that does not hold the lock.
func (f *followed) refresh(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refreshLocked(ctx)
}

// counter is a subject of two parts: one is the number of readings, the other never changes.
type counter struct {
	reads, draws int
	fault        error
	over         bool
}

func (c *counter) readRecord(context.Context) error {
	if c.fault == nil {
		c.reads++
	}
	return c.fault
}

func (c *counter) drawPage(context.Context, page.Live, time.Time) (drawing, error) {
	c.draws++
	return drawn(strconv.Itoa(c.reads)), nil
}

func (c *counter) isRunning() bool { return !c.over }

func (c *counter) findFolder(string) (folder, error) { return folder{}, artifact.ErrNotFound }

type drawn string

func (d drawn) Page(since, notice string, failed bool) ([]byte, error) {
	return []byte(string(d) + " " + since + " " + notice + " " + strconv.FormatBool(failed)), nil
}

func (d drawn) Parts() ([]page.Part, error) {
	return []page.Part{{ID: "head", HTML: "a head"}, {ID: "count", HTML: string(d)}}, nil
}

// Only the changed parts get the new version, and all waiters are notified.
func TestFollowed_versions(t *testing.T) {
	t.Parallel()
	f := newFollowed("/sessions/s1", &counter{})
	parts, version, changed, ended := f.newerParts(0)
	require.Empty(t, parts)
	require.False(t, ended, "a page that was not read has not ended")
	require.NoError(t, f.refresh(t.Context()))
	<-changed
	parts, version, changed, _ = f.newerParts(version)
	require.Equal(t, map[string]string{"head": "a head", "count": "1"}, partsByID(parts))

	require.NoError(t, f.refresh(t.Context()))
	<-changed
	parts, version, changed, _ = f.newerParts(version)
	require.Equal(t, map[string]string{"count": "2"}, partsByID(parts))
	f.mu.Lock()
	require.NoError(t, f.redrawParts(t.Context()))
	f.mu.Unlock()
	select {
	case <-changed:
		require.Fail(t, "a drawing that changes nothing tells nobody")
	default:
	}
	parts, now, _, _ := f.newerParts(version)
	require.Empty(t, parts)
	require.Equal(t, version, now)
	all, _, _, _ := f.newerParts(0)
	require.Equal(t, map[string]string{"head": "a head", "count": "2"}, partsByID(all))
}

// A version is valid only in the process that assigned it.
func TestFollowed_since(t *testing.T) {
	t.Parallel()
	f := newFollowed("/sessions/s1", &counter{})
	other := newFollowed("/sessions/s1", &counter{})
	require.Equal(t, 7, f.parseVersion(f.versionID(7)))
	for _, id := range []string{"", "7", other.versionID(7), f.epoch, f.epoch + ".", f.epoch + ".x", f.epoch + ".-1", "." + f.epoch, f.epoch + ".1.2"} {
		require.Zero(t, f.parseVersion(id), "%q", id)
	}
}

// A page is read again when it is older than newsInterval, and shows the notice.
func TestFollowed_page(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counter{}
		f := newFollowed("/sessions/s1", c)
		read := func(notice string, failed bool) string {
			html, err := f.renderPage(t.Context(), notice, failed)
			require.NoError(t, err)
			return string(html)
		}
		require.Equal(t, "1 "+f.versionID(1)+"  false", read("", false))
		require.Equal(t, "1 "+f.versionID(1)+" paused true", read("paused", true))
		time.Sleep(newsInterval)
		require.Equal(t, 1, c.reads)
		read("", false)
		require.Equal(t, 1, c.reads)
		time.Sleep(time.Millisecond)
		require.Equal(t, "2 "+f.versionID(2)+"  false", read("", false))

		time.Sleep(time.Hour)
		c.fault = errors.New("the storage does not answer")
		_, err := f.renderPage(t.Context(), "", false)
		require.ErrorIs(t, err, c.fault)
		_, err = f.renderTranscript(t.Context(), nil)
		require.ErrorIs(t, err, record.ErrNone, "it is not a session")
	})
}

// A page is updated while it has readers: at once for news, every second for activities, and every
// other second for other changes.
func TestFollowed_watch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counter{}
		f := newFollowed("/sessions/s1", c)
		var status atomic.Pointer[string]
		say := func(s string) { status.Store(&s) }
		say("a")
		f.status = func(context.Context) ([]byte, error) {
			if s := *status.Load(); s != "" {
				return []byte(s), nil
			}
			return nil, errors.New("the storage does not answer")
		}
		f.activities = func(context.Context) []cli.Activity { return nil }
		counts := func() [2]int {
			f.mu.Lock()
			defer f.mu.Unlock()
			return [2]int{c.reads, c.draws}
		}
		time.Sleep(time.Minute)
		require.Equal(t, [2]int{}, counts(), "nobody reads it")

		first, second := f.addReader(), f.addReader()
		time.Sleep(newsInterval + time.Millisecond)
		require.Equal(t, [2]int{1, 1}, counts())
		time.Sleep(newsInterval)
		require.Equal(t, [2]int{1, 1}, counts(), "nothing is new")
		say("b")
		time.Sleep(newsInterval)
		require.Equal(t, [2]int{2, 2}, counts())
		time.Sleep(workInterval + newsInterval)
		require.Equal(t, [2]int{2, 3}, counts(), "the work of steps is drawn")
		time.Sleep(wholeInterval)
		require.Equal(t, 3, counts()[0], "time passes without news")

		say("")
		before := counts()[0]
		time.Sleep(newsInterval)
		require.Equal(t, before, counts()[0], "a store that does not answer is no news")
		first()
		time.Sleep(wholeInterval + newsInterval)
		require.Greater(t, counts()[0], before, "the other still reads")
		second()
		synctest.Wait()
		before = counts()[0]
		time.Sleep(time.Minute)
		require.Equal(t, before, counts()[0], "nobody reads it any more")
		again := f.addReader()
		time.Sleep(wholeInterval + newsInterval)
		require.Greater(t, counts()[0], before)
		again()
	})
}

// A page that nobody has looked at for ten minutes is dropped, unless it has readers.
func TestHandler_forgets(t *testing.T) {
	t.Parallel()
	p := stage.NewRecord(t, "Why?", coordination.Config{Agents: []string{"agent_a"}})
	synctest.Test(t, func(t *testing.T) {
		h := New(&cli.Connection{CLI: &cli.CLI{}, Store: p.Store}, Options{})
		for _, id := range []string{"read", "left", "new"} {
			h.pages["/sessions/"+id], h.used["/sessions/"+id] = newFollowed("/sessions/"+id, &counter{}), time.Now()
		}
		leave := h.pages["/sessions/read"].addReader()
		time.Sleep(6 * time.Minute)
		ask(t, h, "new")
		time.Sleep(6 * time.Minute)
		ask(t, h, "other")
		require.NotContains(t, h.pages, "/sessions/left")
		require.Contains(t, h.pages, "/sessions/new")
		require.Contains(t, h.pages, "/sessions/read")
		leave()
		time.Sleep(11 * time.Minute)
		ask(t, h, "s1")
		require.Len(t, h.pages, 1)
	})
}

// ask requests the page of a session.
func ask(t *testing.T, h *Handler, id string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/sessions/"+id, nil)
	r.SetPathValue("id", id)
	_, err := h.followedPage(r)
	require.NoError(t, err)
}

// The page of a directory is kept forever.
func TestDirectory_stays(t *testing.T) {
	t.Parallel()
	p := stage.NewRecord(t, "Why?", coordination.Config{Agents: []string{"agent_a"}})
	synctest.Test(t, func(t *testing.T) {
		h, _ := Directory("s1", record.InDirectory(p.Store, nil))
		for range 3 {
			ask(t, h, "s1")
			time.Sleep(11 * time.Minute)
		}
	})
}

// Notices are shown once, and the number of waiting notices is bounded.
func TestHandler_notices(t *testing.T) {
	t.Parallel()
	h := New(nil, Options{})
	key := h.keepNotice(notice{text: "paused"})
	require.Equal(t, notice{text: "paused"}, h.takeNotice(key))
	require.Zero(t, h.takeNotice(key))
	require.Zero(t, h.takeNotice(""))
	for range 250 {
		key = h.keepNotice(notice{text: "again", failed: true})
		require.LessOrEqual(t, len(h.notices), 100)
	}
	require.Equal(t, notice{text: "again", failed: true}, h.takeNotice(key))
}

// The name of a download contains no character that would end it or the header.
func TestPlain(t *testing.T) {
	t.Parallel()
	for r, want := range map[rune]rune{'a': 'a', ' ': ' ', '~': '~', '.': '.', '"': '_', '\\': '_', '\n': '_', '\r': '_', 0: '_', 0x7f: '_', 'é': '_', '😀': '_'} {
		require.Equal(t, want, quotableRune(r), "%q", r)
	}
}
