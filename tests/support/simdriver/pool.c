/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of pools.  A pool holds segments of device pages, cut into pieces; a piece
 * is a block that is in use or free.  A free piece remembers the stream and position of
 * its free: on that stream it can be used again at once, elsewhere once that passed.
 */
#include <sys/mman.h>

#include "sim.h"
#include "pool.h"

/* Guards every device's list of pools. */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;

/* ------------------------------------------------------------------ free pieces */

static void push_free(struct pool *pool, struct block *piece)
{
	piece->free_prev = NULL;
	piece->free_next = pool->free_blocks;
	if (piece->free_next)
		piece->free_next->free_prev = piece;
	pool->free_blocks = piece;
}

static void unlink_free(struct pool *pool, struct block *piece)
{
	if (piece->free_prev)
		piece->free_prev->free_next = piece->free_next;
	else
		pool->free_blocks = piece->free_next;
	if (piece->free_next)
		piece->free_next->free_prev = piece->free_prev;
}

static void forget_stream(struct block *piece)
{
	if (piece->free_stream)
		stream_give(piece->free_stream);
	piece->free_stream = NULL;
}

/* Everybody may have it: the work in front of its free is done. */
static bool has_passed(struct block *piece)
{
	if (piece->free_stream && queue_passed(piece->free_stream, piece->free_seq))
		forget_stream(piece);
	return !piece->free_stream;
}

static bool is_usable(struct block *piece, const struct stream *stream)
{
	return piece->free_stream == stream || has_passed(piece);
}

/*
 * The same for who gives bytes back: with `seen` only what the host has already seen
 * done, by a synchronise, counts as passed.
 */
static bool is_over(struct block *piece, bool seen)
{
	return seen ? !piece->free_stream : has_passed(piece);
}

static void join_right(struct pool *pool, struct block *piece)
{
	struct block *right = piece->right;

	unlink_free(pool, right);
	piece->span += right->span;
	piece->right = right->right;
	if (right->right)
		right->right->left = piece;
	handle_give(OBJECT_BLOCK, right);
}

/* Joins neighbours that are free for everyone. */
static void coalesce(struct pool *pool, bool seen)
{
	for (struct block *piece = pool->free_blocks; piece; piece = piece->free_next)
		while (is_over(piece, seen) && piece->right && !piece->right->in_use &&
		       is_over(piece->right, seen))
			join_right(pool, piece);
}

static struct block *find_piece(struct pool *pool, size_t span, struct stream *stream)
{
	struct block *best = NULL;

	for (struct block *piece = pool->free_blocks; piece; piece = piece->free_next) {
		if (piece->span < span || (best && piece->span >= best->span) ||
		    !is_usable(piece, stream))
			continue;
		best = piece;
		if (piece->span == span)
			break;
	}
	return best;
}

/* ------------------------------------------------------------------ segments */

static bool is_managed(const struct pool *pool)
{
	return pool->props.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED;
}

static bool is_host(const struct pool *pool)
{
	return pool->props.allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
	       (pool->props.location.type == CU_MEM_LOCATION_TYPE_HOST ||
		pool->props.location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA);
}

static char *take_pages(struct pool *pool, size_t bytes)
{
	if (is_host(pool))
		return memory_map_host(bytes);
	return is_managed(pool) ? memory_take_managed(pool->device, bytes) :
				  space_take_pages(pool->device, bytes);
}

static void give_pages(struct pool *pool, char *base, size_t bytes)
{
	if (is_host(pool))
		munmap(base, bytes);
	else if (is_managed(pool))
		memory_give_managed(pool->device, base, bytes);
	else
		space_give_pages(pool->device, base, bytes);
}

static enum block_kind kind_of_piece(const struct pool *pool)
{
	if (is_host(pool))
		return BLOCK_HOST;
	return is_managed(pool) ? BLOCK_MANAGED : BLOCK_POOL;
}

static struct block *new_piece(struct pool *pool, struct segment *segment, char *base, size_t span)
{
	struct block *piece = memory_block(kind_of_piece(pool), base, span, span);

	if (!piece)
		return NULL;
	piece->pool = pool;
	piece->device = pool->device;
	piece->segment = segment;
	if (piece->kind == BLOCK_POOL)
		piece->alias = space_alias(pool->device, base);
	push_free(pool, piece);
	return piece;
}

/* The memory of a pool that may be exported is a file from the start. */
static bool share(struct pool *pool, const struct segment *segment)
{
	size_t offset;
	int fd;

	return pool->props.handleTypes == CU_MEM_HANDLE_TYPE_NONE ||
	       space_share(pool->device, segment->base, segment->bytes, &fd, &offset);
}

static struct block *grow(struct pool *pool, size_t span)
{
	size_t bytes = round_up(span, settings.pool_chunk);
	struct segment *segment = calloc(1, sizeof(*segment));
	struct block *piece;

	if (!segment)
		return NULL;
	segment->base = take_pages(pool, bytes);
	if (!segment->base) {
		bytes = round_up(span, PAGE_BYTES);
		segment->base = take_pages(pool, bytes);
	}
	segment->bytes = bytes;
	piece = segment->base && share(pool, segment) ?
		new_piece(pool, segment, segment->base, bytes) : NULL;
	if (!piece) {
		if (segment->base)
			give_pages(pool, segment->base, bytes);
		free(segment);
		return NULL;
	}
	segment->next = pool->segments;
	pool->segments = segment;
	pool->reserved += bytes;
	if (pool->reserved > pool->reserved_high)
		pool->reserved_high = pool->reserved;
	return piece;
}

/* The one piece of a segment that is wholly free, or NULL. */
static struct block *whole_piece(struct pool *pool, const struct segment *segment, bool seen)
{
	struct block *piece = pool->free_blocks;

	while (piece && !(piece->base == segment->base && piece->span == segment->bytes &&
			  is_over(piece, seen)))
		piece = piece->free_next;
	return piece;
}

static void release_segments(struct pool *pool, size_t keep, bool seen)
{
	struct segment **place = &pool->segments;

	coalesce(pool, seen);
	while (*place && pool->reserved > keep) {
		struct segment *segment = *place;
		struct block *piece = segment->used ? NULL :
						      whole_piece(pool, segment, seen);

		if (!piece || pool->reserved - segment->bytes < keep) {
			place = &segment->next;
			continue;
		}
		*place = segment->next;
		unlink_free(pool, piece);
		handle_give(OBJECT_BLOCK, piece);
		give_pages(pool, segment->base, segment->bytes);
		pool->reserved -= segment->bytes;
		free(segment);
	}
}

void pool_trim_to(struct pool *pool, size_t keep)
{
	pthread_mutex_lock(&pool->lock);
	release_segments(pool, keep, true);
	pthread_mutex_unlock(&pool->lock);
}

void pool_give_idle(struct device *device)
{
	pthread_mutex_lock(&list_lock);
	for (struct pool *pool = device->pools; pool; pool = pool->next)
		pool_trim_to(pool, 0);
	pthread_mutex_unlock(&list_lock);
}

/* ------------------------------------------------------------------ taking and giving */

static bool cut(struct pool *pool, struct block *piece, size_t span)
{
	struct block *rest;

	if (piece->span == span)
		return true;
	rest = new_piece(pool, piece->segment, piece->base + span, piece->span - span);
	if (!rest)
		return false;
	if (piece->free_stream) {
		handle_retain(piece->free_stream);
		rest->free_stream = piece->free_stream;
		rest->free_seq = piece->free_seq;
	}
	rest->left = piece;
	rest->right = piece->right;
	if (rest->right)
		rest->right->left = rest;
	piece->right = rest;
	piece->span = span;
	return true;
}

static struct block *find_or_grow(struct pool *pool, size_t span, struct stream *stream)
{
	struct block *piece = find_piece(pool, span, stream);

	if (piece)
		return piece;
	coalesce(pool, false);
	piece = find_piece(pool, span, stream);
	if (piece)
		return piece;
	piece = grow(pool, span);
	if (piece)
		return piece;
	release_segments(pool, 0, false);
	return grow(pool, span);
}

static struct block *take(struct pool *pool, size_t bytes, struct stream *stream)
{
	size_t span = round_up(bytes, GRANULE);
	struct block *piece = find_or_grow(pool, span, stream);

	if (!piece || !cut(pool, piece, span))
		return NULL;
	unlink_free(pool, piece);
	forget_stream(piece);
	piece->in_use = true;
	piece->released = false;
	piece->size = bytes;
	piece->id = handle_next_id();
	piece->segment->used += span;
	pool->live++;
	pool->used += span;
	if (pool->used > pool->used_high)
		pool->used_high = pool->used;
	return piece;
}

CUresult pool_take(struct pool *pool, size_t bytes, struct stream *stream, struct block **out)
{
	struct block *piece = NULL;

	if (bytes <= pool->device->total) {
		pthread_mutex_lock(&pool->lock);
		piece = take(pool, bytes, stream);
		pthread_mutex_unlock(&pool->lock);
	}
	if (!piece)
		return CUDA_ERROR_OUT_OF_MEMORY;
	registry_add(piece);
	*out = piece;
	return CUDA_SUCCESS;
}

/*
 * Not counted: cuMemFree of a pool pointer was seen to leave the pool's USED attribute
 * where it was.
 */
void pool_give(struct block *piece, struct stream *stream, uint64_t seq, bool counted)
{
	struct pool *pool = piece->pool;
	bool last;

	registry_remove(piece);
	pthread_mutex_lock(&pool->lock);
	piece->in_use = false;
	if (stream) {
		handle_retain(stream);
		piece->free_stream = stream;
		piece->free_seq = seq;
	}
	piece->segment->used -= piece->span;
	if (counted)
		pool->used -= piece->span;
	push_free(pool, piece);
	last = --pool->live == 0 && pool->destroyed;
	atomic_store(&pool->releasable, true);
	atomic_store(&pool->device->pools_dirty, true);
	pthread_mutex_unlock(&pool->lock);
	if (last)
		pool_observe(pool->device);
}

/* True while a free of the pool still waits for its stream. */
static bool has_pending(struct pool *pool)
{
	struct block *piece = pool->free_blocks;

	while (piece && has_passed(piece))
		piece = piece->free_next;
	return piece != NULL;
}

/* True when the pool is destroyed and empty: nothing keeps it any more. */
static bool observe(struct pool *pool)
{
	bool over;

	if (!atomic_exchange(&pool->releasable, false))
		return false;
	pthread_mutex_lock(&pool->lock);
	over = pool->destroyed && pool->live == 0;
	release_segments(pool, over ? 0 : pool->threshold, false);
	if (has_pending(pool)) {
		atomic_store(&pool->releasable, true);
		atomic_store(&pool->device->pools_dirty, true);
	}
	over = over && !pool->segments;
	pthread_mutex_unlock(&pool->lock);
	return over;
}

void pool_observe(struct device *device)
{
	struct pool **place = &device->pools, *pool;

	if (!atomic_load_explicit(&device->pools_dirty, memory_order_relaxed))
		return;
	atomic_store(&device->pools_dirty, false);
	pthread_mutex_lock(&list_lock);
	while ((pool = *place) != NULL) {
		if (observe(pool)) {
			*place = pool->next;
			handle_give(OBJECT_POOL, pool);
		} else {
			place = &pool->next;
		}
	}
	pthread_mutex_unlock(&list_lock);
}

void pool_end(struct pool *pool)
{
	struct device *device = pool->device;

	handle_kill(pool);
	pthread_mutex_lock(&pool->lock);
	pool->destroyed = true;
	atomic_store(&pool->releasable, true);
	atomic_store(&device->pools_dirty, true);
	pthread_mutex_unlock(&pool->lock);
	pool_observe(device);
}

/* ------------------------------------------------------------------ a pool's life */

struct pool *pool_new(struct device *device)
{
	struct pool *pool = handle_new(OBJECT_POOL);

	if (!pool)
		return NULL;
	pool->device = device;
	pthread_mutex_init(&pool->lock, NULL);
	for (size_t i = 0; i < sizeof(pool->reuse) / sizeof(pool->reuse[0]); i++)
		pool->reuse[i] = 1;
	pool->access[device->index] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	pthread_mutex_lock(&list_lock);
	pool->next = device->pools;
	device->pools = pool;
	pthread_mutex_unlock(&list_lock);
	return pool;
}

CUresult pool_start(struct device *device)
{
	struct pool *pool = pool_new(device), *managed = pool_new(device);

	if (!pool || !managed)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pool->is_default = managed->is_default = true;
	managed->props.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED;
	device->default_pool = pool;
	device->managed_pool = managed;
	atomic_store(&device->current_pool, pool);
	atomic_store(&device->current_managed_pool, managed);
	return CUDA_SUCCESS;
}
