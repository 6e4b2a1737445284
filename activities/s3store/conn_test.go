package s3store

import (
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// pipe returns the two ends of a connection, in fake time.
func pipe(t *testing.T) (client, server net.Conn) {
	t.Helper()
	c, server := net.Pipe()
	t.Cleanup(func() {
		_ = c.Close()
		_ = server.Close()
	})
	return &timeoutConn{Conn: c, silence: maxSilence}, server
}

func TestConn_failsAfterSilence(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(net.Conn) error{
		"no byte arrives": func(c net.Conn) error { _, err := c.Read(make([]byte, 1)); return err },
		"no byte leaves":  func(c net.Conn) error { _, err := c.Write([]byte("request")); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, _ := pipe(t)
				began := time.Now()
				require.ErrorIs(t, use(client), os.ErrDeadlineExceeded)
				require.Equal(t, maxSilence, time.Since(began))
			})
		})
	}
}

func TestConn_survivesSlowTransfers(t *testing.T) {
	t.Parallel()
	const pieces = 10
	t.Run("an upload", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			client, server := pipe(t)
			response := make(chan error, 1)
			go func() { // as net/http reads the response while it sends
				_, err := io.ReadFull(client, make([]byte, 2))
				response <- err
			}()
			go func() {
				for range pieces {
					time.Sleep(maxSilence * 2 / 3)
					_, _ = server.Read(make([]byte, 1))
				}
				time.Sleep(maxSilence * 2 / 3)
				_, _ = server.Write([]byte("OK"))
			}()
			for range pieces {
				_, err := client.Write([]byte("x"))
				require.NoError(t, err)
			}
			require.NoError(t, <-response)
		})
	})
	t.Run("a download", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			client, server := pipe(t)
			go func() {
				for range pieces {
					time.Sleep(maxSilence * 2 / 3)
					_, _ = server.Write([]byte("x"))
				}
			}()
			_, err := io.ReadFull(client, make([]byte, pieces))
			require.NoError(t, err)
		})
	})
}
