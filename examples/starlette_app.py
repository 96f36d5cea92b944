"""A web application with its worker inside: one process, one file, no broker.

Run it with any ASGI server: `SHOP_DB=shop.db uvicorn examples.starlette_app:app`. With FastAPI it is the same line:
`FastAPI(lifespan=worker_lifespan(db))`.
"""

from __future__ import annotations

import os

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import brant
from brant.contrib.asgi import worker_lifespan

db = brant.open(os.environ.get("SHOP_DB", "shop.db"))
with db.transaction() as tx:
    tx.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, customer TEXT NOT NULL)")


@db.task("receipts", retries=5)
def make_receipt(order: int) -> str:
    (row,) = db.query("SELECT customer FROM orders WHERE id = ?", [order])
    return f"receipt of order {order} for {row['customer']}"


def place_order(request: Request) -> JSONResponse:
    with db.transaction() as tx:  # the order and the job, or neither
        rows = tx.query("INSERT INTO orders (customer) VALUES (?) RETURNING id", [request.query_params["customer"]])
        receipt = make_receipt.enqueue(rows[0]["id"], tx=tx)
    return JSONResponse({"order": rows[0]["id"], "receipt": receipt.id}, status_code=202)


async def show_receipt(request: Request) -> JSONResponse:
    try:
        text = await db.queue("receipts").wait_result(request.path_params["id"], timeout=10)
    except TimeoutError:
        return JSONResponse({"receipt": None}, status_code=404)
    return JSONResponse({"receipt": text})


app = Starlette(
    routes=[
        Route("/orders", place_order, methods=["POST"]),
        Route("/receipts/{id:int}", show_receipt),
    ],
    lifespan=worker_lifespan(db),
)
