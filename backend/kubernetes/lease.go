package kubernetes

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// renewEvery is how often a lease is renewed, and leaseTime how long one that is not
	// renewed holds its pods.
	renewEvery = 3 * time.Second
	leaseTime  = 15 * time.Second

	// maxSilence is how many renewals may time out, one after the other, before the
	// connection to the API server is given up for another: so many that the lease is
	// renewed over that within leaseTime.
	maxSilence = 3

	// oldLease is after how long without renewal a lease is deleted.
	oldLease = time.Hour
)

// makeLease makes the lease of this process. One for all its pods: so what the API
// server has to do for it does not grow with them.
func (b *Backend) makeLease(ctx context.Context) error {
	b.replica = "sandbox-" + strings.ToLower(rand.Text())
	host, _ := os.Hostname()
	now, seconds := metav1.NowMicro(), int32(leaseTime/time.Second)
	_, err := b.leases.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name:        b.replica,
			Labels:      map[string]string{labelOwner: ownerLabel(b.opts.Owner)},
			Annotations: map[string]string{annotationOwner: b.opts.Owner},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &host, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
	}, metav1.CreateOptions{})
	return err
}

// renew renews the lease until ctx ends. A renewal that fails is tried again: who wants
// to take a pod over has to see that none comes for leaseTime. A load balancer may have
// dropped the connection, which the client library sees after 45 s.
func (b *Backend) renew(ctx context.Context) {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for silent := 0; ; {
		select {
		case <-tick.C:
			if b.renewOnce(ctx) {
				silent = 0
			} else if silent++; silent == maxSilence {
				b.dialer.CloseAll()
				silent = 0
			}
		case <-ctx.Done():
			return
		}
	}
}

// renewOnce reports whether the API server answered in time.
func (b *Backend) renewOnce(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, renewEvery)
	defer cancel()
	lease, err := b.leases.Get(ctx, b.replica, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: b.replica, Labels: map[string]string{labelOwner: ownerLabel(b.opts.Owner)}}}
		lease, err = b.leases.Create(ctx, lease, metav1.CreateOptions{})
	}
	if err == nil {
		now := metav1.NowMicro()
		lease.Spec.RenewTime = &now
		b.leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	return ctx.Err() == nil
}

func (b *Backend) deleteLease(ctx context.Context) error {
	err := b.leases.Delete(ctx, b.replica, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return b.clusterError(err)
}

// renewals returns when the owner's leases were renewed, as their holders say.
func (b *Backend) renewals(ctx context.Context) (map[string]time.Time, error) {
	found, err := b.leases.List(ctx, b.owned())
	if err != nil {
		return nil, err
	}
	times := make(map[string]time.Time)
	for _, lease := range found.Items {
		times[lease.Name] = time.Time{}
		if lease.Spec.RenewTime != nil {
			times[lease.Name] = lease.Spec.RenewTime.Time
		}
	}
	return times, nil
}

// deleteOldLeases deletes what processes left that were killed.
func (b *Backend) deleteOldLeases(ctx context.Context) error {
	renewed, err := b.renewals(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for name, at := range renewed {
		if time.Since(at) < oldLease {
			continue
		}
		if err := b.leases.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
