//go:build bench

package bench

import "testing"

// BenchmarkStorage counts the S3 requests of a session, with a proxy between a worker
// and the store.
func BenchmarkStorage(b *testing.B) {
	const queue = "counted"
	s := newStack(b, newModelServer(b, threeRounds.minds(0)))
	store := newCountingProxy(b, s.S3Endpoint)
	s.background(s.work(queue, store.URL))
	s.awaitWorker(queue)

	var requests samples
	for b.Loop() {
		before := store.traffic()
		s.session(queue)
		requests.add(float64(store.traffic().since(before).all()) / steps)
	}
	requests.report(b, "requests/step", 10)
}
