"""A FastAPI application with its worker inside: the order and the job to mail its receipt are one commit.

Run it with `SHOP_DB=shop.db uvicorn examples.fastapi_app:app`. Several server processes may run on the same file.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel, Field

import brant
from brant.contrib.asgi import worker_lifespan

db = brant.open(os.environ.get("SHOP_DB", "shop.db"))
receipts = db.queue("receipts")


class Order(BaseModel):
    customer: str = Field(min_length=1)
    amount: int


class PlacedOrder(BaseModel):
    order: int
    receipt: int


@receipts.task(retries=5, retry_delay_s=1)
async def make_receipt(order: int) -> str:
    (row,) = db.query("SELECT customer, amount FROM orders WHERE id = ?", [order])
    return f"{row['customer']} paid {row['amount']}"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    with db.transaction() as tx:
        tx.execute(
            "CREATE TABLE IF NOT EXISTS orders"
            " (id INTEGER PRIMARY KEY, customer TEXT NOT NULL, amount INTEGER NOT NULL CHECK (amount > 0))"
        )
    async with worker_lifespan(db)(app):
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=202)
def place_order(
    order: Order,
) -> PlacedOrder:  # no `async`: FastAPI runs it in a thread, where a commit may take its time
    try:
        with db.transaction() as tx:
            rows = tx.query(
                "INSERT INTO orders (customer, amount) VALUES (?, ?) RETURNING id", [order.customer, order.amount]
            )
            receipt = make_receipt.enqueue(rows[0]["id"], tx=tx)
            if order.amount > 1_000:
                raise HTTPException(402, "the card was declined")  # neither the order nor the job is there
    except brant.StorageError as error:
        raise HTTPException(422, str(error)) from error
    return PlacedOrder(order=rows[0]["id"], receipt=receipt.id)


@app.get("/receipts/{receipt}")
async def show_receipt(receipt: int) -> str:
    try:
        return str(await receipts.wait_result(receipt, timeout=10))
    except TimeoutError as error:
        raise HTTPException(404, "there is no such receipt, or not yet") from error
