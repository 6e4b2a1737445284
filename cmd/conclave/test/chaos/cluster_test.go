//go:build e2e

package chaos

import (
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"conclave/activities/s3store"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/files/storetest"
)

// cluster has all running parts and their possible faults.
type cluster struct {
	t        *testing.T
	postgres stage.Postgres
	temporal stage.Temporal
	minio    stage.MinIO
	model    *faultyModel
	client   client.Client
	store    *s3store.Store // without faults, for the checks

	storage atomic.Pointer[string] // the fault of half of the S3 requests
	counts  []func(fault string) int
	workers []*fleetWorker
	island  *island // nil where a network namespace is not permitted
	notRun  []string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, model: newFaultyModel(t), minio: stage.StartMinIO(t), postgres: stage.StartPostgres(t)}
	none := ""
	c.storage.Store(&none)
	c.temporal = stage.StartTemporal(t, c.postgres)
	c.client = c.temporal.Dial(t)
	storetest.CreateBucket(t, c.minio.Endpoints[1], c.minio.AccessKey, c.minio.SecretKey, bucket)
	var err error
	c.store, err = s3store.New(t.Context(), s3store.Options{
		Bucket: bucket, Endpoint: c.minio.Endpoints[1], Region: "us-east-1", AccessKeyID: c.minio.AccessKey, SecretAccessKey: c.minio.SecretKey,
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.store.Close() })
	return c
}

// startWorkers starts three workers: one in a network of its own, and one whose clock is a minute ahead.
func (c *cluster) startWorkers() {
	here := func(address string) string { return address }
	binary := os.Getenv("CONCLAVE_WORKER_BIN")
	require.NotEmpty(c.t, binary, "CONCLAVE_WORKER_BIN is not set: run make chaos")
	plain := place{name: "plain", binary: binary, reach: here}
	remote := place{name: "remote", binary: binary, reach: here}
	ahead := place{name: "ahead", binary: os.Getenv("CONCLAVE_WORKER_AHEAD_BIN"), reach: here}
	if island, err := newIsland(c.t); err == nil {
		c.island = &island
		remote.prefix, remote.reach = island.inside(), island.reach
	} else {
		c.notRun = append(c.notRun, "network cut: "+err.Error())
	}
	if ahead.binary == "" {
		ahead.binary = binary
		c.notRun = append(c.notRun, "clock ahead: CONCLAVE_WORKER_AHEAD_BIN is not set")
	}
	for i, p := range []place{plain, remote, ahead} {
		url, count := storetest.NewProxy(c.t, c.minio.Endpoints[i%2], c.fault)
		p.storage = url
		c.counts = append(c.counts, count)
		c.workers = append(c.workers, c.newWorker(p))
	}
}

// fault returns the fault of one S3 request: half of the requests meet the present one.
func (c *cluster) fault(*http.Request) string {
	if fault := *c.storage.Load(); fault != "" && rand.IntN(2) == 0 {
		return fault
	}
	return ""
}

// storageFaults counts the S3 requests that met a fault.
func (c *cluster) storageFaults(fault string) (n int) {
	for _, count := range c.counts {
		n += count(fault)
	}
	return n
}

// names returns the names of the given workers, or of all workers.
func (c *cluster) names(workers ...*fleetWorker) (names []string) {
	if len(workers) == 0 {
		workers = c.workers
	}
	for _, w := range workers {
		names = append(names, w.name)
	}
	slices.Sort(names)
	return names
}
