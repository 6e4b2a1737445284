package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"conclave/engine/artifact"
)

func createRace(t *testing.T, s artifact.Store) {
	const racers = 64
	for round := range 3 {
		key := fmt.Sprintf("agents/a/%03d/step.json", round+1)
		var won atomic.Int64
		var winner atomic.Value
		start := make(chan struct{})
		group, ctx := errgroup.WithContext(t.Context())
		for racer := range racers {
			group.Go(func() error {
				<-start
				body := fmt.Sprintf(`{"token": %d}`, racer)
				err := s.Create(ctx, key, []byte(body))
				if errors.Is(err, artifact.ErrExists) {
					return nil
				}
				if err == nil {
					won.Add(1)
					winner.Store(body)
				}
				return err
			})
		}
		close(start)
		require.NoError(t, group.Wait())
		require.EqualValues(t, 1, won.Load(), "winners")
		requireObject(t, s, key, winner.Load().(string))
	}
}

func tornReads(t *testing.T, s artifact.Store) {
	const size, writes = 256 << 10, 20
	version := func(c byte) []byte { return bytes.Repeat([]byte{c}, size) }
	require.NoError(t, s.Put(t.Context(), "status.json", bytes.NewReader(version('a'))))

	var writers errgroup.Group
	done := make(chan struct{})
	for w := range 2 {
		writers.Go(func() error {
			for i := range writes {
				body := version(byte('b' + w*writes + i))
				if err := s.Put(t.Context(), "status.json", bytes.NewReader(body)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	var readers errgroup.Group
	for range 4 {
		readers.Go(func() error {
			for {
				data, err := s.Get(t.Context(), "status.json")
				if err != nil {
					return err
				}
				if len(data) != size || !bytes.Equal(data, version(data[0])) {
					return fmt.Errorf("read %d bytes, not one version", len(data))
				}
				select {
				case <-done:
					return nil
				default:
				}
			}
		})
	}
	require.NoError(t, writers.Wait())
	close(done)
	require.NoError(t, readers.Wait())
}
